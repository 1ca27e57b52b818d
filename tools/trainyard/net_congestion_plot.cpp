#include <fmt/format.h>

#include <algorithm>

#include "tools/trainyard/net_congestion.h"

namespace trainyard {
namespace {

constexpr double kWidth = 860, kHeight = 190, kLeft = 60, kTop = 34, kPlot = 640;

const char* colour(std::size_t i) {
  static constexpr const char* kColours[] = {"#1b6ca8", "#d1495b", "#2e8b57", "#e09f3e",
                                             "#7b4f9d", "#3a3a3a", "#00a6a6", "#b5651d"};
  return kColours[i % std::size(kColours)];
}

// One plot: lines over time from zero to the largest value, with both axes' ends.
std::string panel(const char* title, const std::vector<CongestionSeries::Line>& lines,
                  double last_ms, double top) {
  constexpr std::size_t kNamed = 8;
  double most = 1e-9;
  for (const auto& line : lines)
    for (const double value : line.values) most = std::max(most, value);
  const double bottom = top + kHeight - kTop - 26, height = bottom - top - kTop;
  std::string out = fmt::format(
      "<text x='{0}' y='{1}' font-weight='bold'>{2}</text>\n"
      "<path d='M{0} {3}V{4}H{5}' fill='none' stroke='#888'/>\n"
      "<text x='{6}' y='{7}' text-anchor='end'>{8:.3g}</text>"
      "<text x='{6}' y='{4}' text-anchor='end'>0</text>"
      "<text x='{5}' y='{9}' text-anchor='end'>{10:g} ms</text>\n",
      kLeft, top + 22, title, top + kTop, bottom, kLeft + kPlot, kLeft - 6, top + kTop + 10, most,
      bottom + 16, last_ms);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string points;
    const auto& values = lines[i].values;
    for (std::size_t at = 0; at < values.size(); ++at)
      points += fmt::format(
          "{:.1f},{:.1f} ",
          kLeft + kPlot * static_cast<double>(at + 1) / static_cast<double>(values.size()),
          bottom - height * values[at] / most);
    out += fmt::format("<polyline points='{}' fill='none' stroke='{}'/>\n", points, colour(i));
    if (i < kNamed)
      out += fmt::format("<text x='{}' y='{}' fill='{}'>{}</text>\n", kLeft + kPlot + 12,
                         top + kTop + 10 + 15 * static_cast<double>(i), colour(i), lines[i].name);
  }
  return out;
}

}  // namespace

std::string congestion_csv(const CongestionSeries& series) {
  std::string out = "time_ms";
  std::size_t rows = 0;
  for (const auto& [unit, lines] :
       {std::pair("gbps", &series.rates), {"queue_kb", &series.queues}, {"paused", &series.pauses}})
    for (const auto& line : *lines) {
      out += fmt::format(",{} {}", line.name, unit);
      rows = line.values.size();
    }
  out += "\n";
  for (std::size_t at = 0; at < rows; ++at) {
    out += fmt::format("{:.4f}", static_cast<double>(at + 1) * series.step_ms);
    for (const auto* lines : {&series.rates, &series.queues, &series.pauses})
      for (const auto& line : *lines) out += fmt::format(",{:.4f}", line.values[at]);
    out += "\n";
  }
  return out;
}

std::string congestion_svg(const CongestionCase& asked, const CongestionSeries& series) {
  std::string out = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' viewBox='0 0 {0} {1}' "
      "font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n"
      "<text x='{2}' y='20' font-size='15'>{3}, {4} Gb/s, {5} {6}, model {7}</text>\n",
      kWidth, 3 * kHeight + 36, kLeft, asked.scenario, asked.gbps, asked.control,
      asked.control == "dcqcn" || asked.control == "hybrid" ? asked.parameters : "", asked.model);
  out += panel("rate of each flow, Gb/s", series.rates, asked.last_ms, 30);
  out += panel("queue, KB", series.queues, asked.last_ms, 30 + kHeight);
  out += panel("paused, part of the time", series.pauses, asked.last_ms, 30 + 2 * kHeight);
  return out + "</svg>\n";
}

}  // namespace trainyard
