#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/report/text.h"
#include "tools/trainyard/sweep.h"

namespace trainyard {
namespace {

// Smaller is better for each of these.
struct Ranking {
  const char* name;
  double (*cost)(const Layout&);
};

const Ranking kRankings[] = {
    {"mfu", [](const Layout& layout) { return -layout.mfu; }},
    {"tokens_per_s", [](const Layout& layout) { return -layout.tokens_per_s; }},
    {"iteration_time_s", [](const Layout& layout) { return to_seconds(layout.iteration); }},
    {"training_days", [](const Layout& layout) { return layout.training_days; }},
    {"peak_memory",
     [](const Layout& layout) { return static_cast<double>(layout.peak_memory.value); }},
};

Json settings_json(const Grid& grid, const Layout& layout) {
  Json out = Json::object();
  for (std::size_t i = 0; i < layout.values.size(); ++i) out[grid.axes()[i].key] = layout.values[i];
  return out;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

std::vector<std::string> ranking_names() {
  std::vector<std::string> out;
  for (const Ranking& ranking : kRankings) out.emplace_back(ranking.name);
  return out;
}

void rank_layouts(std::vector<Layout>& layouts, const std::string& ranking) {
  const Ranking* chosen =
      std::find_if(std::begin(kRankings), std::end(kRankings),
                   [&](const Ranking& candidate) { return candidate.name == ranking; });
  std::stable_sort(layouts.begin(), layouts.end(), [&](const Layout& a, const Layout& b) {
    if (a.reason.empty() != b.reason.empty()) return a.reason.empty();
    return a.reason.empty() && chosen->cost(a) < chosen->cost(b);
  });
}

Json sweep_json(const Grid& grid, const std::vector<Layout>& layouts) {
  Json feasible = Json::array(), infeasible = Json::array();
  for (const Layout& layout : layouts) {
    Json out = {{"set", settings_json(grid, layout)}};
    if (!layout.reason.empty()) {
      out["reason"] = layout.reason;
      infeasible.push_back(out);
      continue;
    }
    out["gpus"] = layout.gpus;
    out["iteration_time_s"] = to_seconds(layout.iteration);
    out["tokens_per_s"] = layout.tokens_per_s;
    out["mfu"] = layout.mfu;
    out["training_days"] = layout.training_days;
    out["peak_memory_bytes"] = layout.peak_memory.value;
    feasible.push_back(out);
  }
  return {{"schema", "trainyard-sweep-1"}, {"layouts", feasible}, {"infeasible", infeasible}};
}

std::string sweep_csv(const Grid& grid, const std::vector<Layout>& layouts) {
  std::string out;
  for (const GridAxis& axis : grid.axes()) out += csv_cell(axis.key) + ",";
  out +=
      "gpus,iteration_time_s,tokens_per_s,mfu,training_days,peak_memory_bytes,infeasible_because\n";
  for (const Layout& layout : layouts) {
    for (const std::string& value : layout.values) out += csv_cell(value) + ",";
    if (layout.reason.empty())
      out += fmt::format("{},{},{},{},{},{},\n", layout.gpus, to_seconds(layout.iteration),
                         layout.tokens_per_s, layout.mfu, layout.training_days,
                         layout.peak_memory.value);
    else
      out += ",,,,,," + csv_cell(layout.reason) + "\n";
  }
  return out;
}

std::string sweep_text(const Grid& grid, const std::vector<Layout>& layouts, std::size_t top,
                       bool infeasible) {
  TextTable table;
  std::vector<std::string> head{"best"};
  for (const GridAxis& axis : grid.axes()) head.push_back(axis.key);
  for (const char* name : {"GPUs", "iteration s", "tokens/s", "MFU %", "peak GiB"})
    head.emplace_back(name);
  table.row(head);
  std::size_t feasible = 0;
  for (const Layout& layout : layouts) {
    if (!layout.reason.empty() || ++feasible > top) continue;
    std::vector<std::string> cells{std::to_string(feasible)};
    cells.insert(cells.end(), layout.values.begin(), layout.values.end());
    cells.push_back(grouped(layout.gpus));
    cells.push_back(fmt::format("{:.3f}", to_seconds(layout.iteration)));
    cells.push_back(grouped(static_cast<std::int64_t>(layout.tokens_per_s)));
    cells.push_back(fmt::format("{:.1f}", layout.mfu * 100));
    cells.push_back(gib(layout.peak_memory));
    table.row(cells);
  }
  std::string out = table.text();
  out += fmt::format("\n{} layouts: {} feasible, {} infeasible\n", grouped(layouts.size()),
                     grouped(feasible), grouped(layouts.size() - feasible));
  for (const Layout& layout : layouts)
    if (infeasible && !layout.reason.empty())
      out += fmt::format("{}: {}\n", fmt::join(layout.values, ", "), layout.reason);
  return out;
}

}  // namespace trainyard
