#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/report/text.h"
#include "tools/trainyard/validate.h"

namespace trainyard {
namespace {

constexpr const char* kColours[] = {"#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951",
                                    "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0", "#d62728"};

// Text made safe inside HTML and attributes.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

// Whether there are two numbers that logarithmic axes can show.
bool predicted(const ValidatedRow& row) {
  return row.skipped.empty() && std::isnormal(row.published) && std::isnormal(row.predicted) &&
         row.published > 0 && row.predicted > 0;
}

// Families in the order of the rows, each with a colour.
class Colours {
 public:
  const char* of(const std::string& family) {
    return kColours[numbers_.emplace(family, numbers_.size()).first->second % std::size(kColours)];
  }

 private:
  std::map<std::string, std::size_t> numbers_;
};

// Predicted over published on logarithmic axes; the diagonals are equality and 20 % either way.
std::string scatter(const std::vector<const ValidatedRow*>& rows, Colours& colours) {
  constexpr double kSize = 460, kMargin = 50;
  double low = 1e300, high = 0;
  for (const ValidatedRow* row : rows) {
    low = std::min({low, row->published, row->predicted});
    high = std::max({high, row->published, row->predicted});
  }
  low = std::log10(low / 1.1), high = std::log10(high * 1.1);
  const auto place = [&](double value) {
    return kMargin + (std::log10(value) - low) / (high - low) * (kSize - 2 * kMargin);
  };
  const auto x = place;
  const auto y = [&](double value) { return kSize - place(value); };
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {0} {0}\" width=\"{0}\" role=\"img\" "
      "aria-label=\"Predicted over published values; every row is in the table below\">",
      kSize);
  for (int power = static_cast<int>(std::ceil(low)); power <= std::floor(high); ++power) {
    const double at = std::pow(10.0, power);
    out += fmt::format(
        "<path class=\"grid\" d=\"M{0:.1f} {1:.1f}V{2:.1f}M{1:.1f} {3:.1f}H{2:.1f}\"/>"
        "<text x=\"{0:.1f}\" y=\"{4:.1f}\" text-anchor=\"middle\">1e{5}</text>"
        "<text x=\"{6:.1f}\" y=\"{3:.1f}\" text-anchor=\"end\">1e{5}</text>",
        x(at), kMargin, kSize - kMargin, y(at), kSize - kMargin + 16, power, kMargin - 6);
  }
  const double from = std::pow(10.0, low), to = std::pow(10.0, high);
  for (const double factor : {1.0, 1.2, 1 / 1.2})
    out += fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>",
                       factor == 1.0 ? "equal" : "band", x(from), y(from * factor), x(to),
                       y(to * factor));
  for (const ValidatedRow* row : rows)
    out += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}: published {:.5g}, "
        "predicted {:.5g} ({:+.1f} %)</title></circle>",
        x(row->published), y(row->predicted), colours.of(row->families[0]), escaped(row->id),
        row->published, row->predicted, row->error() * 100);
  return out + fmt::format(
                   "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">published</text>"
                   "<text x=\"12\" y=\"30\">predicted</text></svg>",
                   kSize / 2, kSize - 12);
}

// Errors of a family's rows on a line from -50 % to +50 %.
std::string strip(const std::vector<const ValidatedRow*>& rows, const char* colour) {
  constexpr double kWidth = 300;
  const auto x = [](double error) { return (std::clamp(error, -0.5, 0.5) + 0.5) * kWidth; };
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {0} 18\" width=\"{0}\"><path class=\"grid\" "
      "d=\"M{1} 0V18M{2} 0V18\"/><path class=\"equal\" d=\"M{3} 0V18\"/>",
      kWidth, x(-0.1), x(0.1), x(0));
  for (const ValidatedRow* row : rows)
    out += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"9\" r=\"3\" fill=\"{}\" opacity=\"0.6\"><title>{} {:+.1f} "
        "%</title></circle>",
        x(row->error()), colour, escaped(row->id), row->error() * 100);
  return out + "</svg>";
}

std::string families_table(const std::vector<ValidatedRow>& rows, Colours& colours) {
  std::string out =
      "<div class=\"wide\"><table><tr><th>family<th>rows<th>not predicted<th>median |error| "
      "%<th>mean<th>max"
      "<th>in interval %<th>errors, -50 % to +50 %</tr>";
  std::map<std::string, std::vector<const ValidatedRow*>> members;
  for (const ValidatedRow& row : rows) {
    if (predicted(row)) {
      members["all"].push_back(&row);
      for (const std::string& family : row.families) members[family].push_back(&row);
    }
  }
  const auto number = [](double part) { return std::isnan(part) ? "" : percent(part); };
  for (const FamilySummary& family : summarise(rows))
    out += fmt::format("<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
                       escaped(family.name), family.rows, family.skipped,
                       number(family.median_abs_error), number(family.mean_abs_error),
                       number(family.max_abs_error), number(family.coverage),
                       strip(members[family.name], colours.of(family.name)));
  return out + "</table></div>";
}

std::string html_rows(const std::vector<ValidatedRow>& rows) {
  std::string out =
      "<details><summary>Every row</summary><div "
      "class=\"wide\"><table><tr><th>row<th>quantity<th>published"
      "<th>predicted<th>error %<th>assumed, or why not predicted</tr>";
  for (const ValidatedRow& row : rows) {
    const bool known = predicted(row);
    out += fmt::format(
        "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td class=\"small\">{}</tr>", escaped(row.id),
        row.quantity, std::isnan(row.published) ? "" : fmt::format("{:.5g}", row.published),
        known ? fmt::format("{:.5g}", row.predicted) : "", known ? percent(row.error()) : "",
        escaped(known ? row.assumed : row.skipped));
  }
  return out + "</table></div></details>";
}

constexpr const char* kHead = R"(<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">
<title>Trainyard: predictions beside measurements</title>
<style>:root{color-scheme:light dark;--back:#fff;--text:#222;--quiet:#666;--line:#ddd;--band:#999}
@media(prefers-color-scheme:dark){:root{--back:#1b1c1e;--text:#ddd;--quiet:#aaa;--line:#444;
--band:#888}}
body{font:14px/1.4 system-ui,sans-serif;margin:2em auto;max-width:1100px;padding:0 1em;
background:var(--back);color:var(--text)}
table{border-collapse:collapse;margin:1em 0}td,th{padding:2px 8px;text-align:right;
border-bottom:1px solid var(--line)}td:first-child,th:first-child,.small{text-align:left}
.wide{overflow-x:auto}.small{font-size:11px;color:var(--quiet)}svg{max-width:100%;height:auto}
td svg{max-width:none}svg text{font-size:11px;fill:var(--quiet)}
.grid{stroke:var(--line);fill:none}.equal{stroke:var(--text);fill:none}
.band{stroke:var(--band);stroke-dasharray:4 3;fill:none}
.plots{display:flex;flex-wrap:wrap}figure{margin:0;max-width:100%}figcaption{text-align:center}</style>
<h1>Predictions beside measurements</h1>
)";

}  // namespace

std::string validation_html(const std::vector<ValidatedRow>& rows) {
  Colours colours;
  std::map<std::string, std::vector<const ValidatedRow*>> by_quantity;
  for (const ValidatedRow& row : rows)
    if (predicted(row)) by_quantity[row.quantity].push_back(&row);
  std::string out = kHead;
  if (by_quantity.empty()) out += "<p>No row was predicted; the table of rows says why.</p>";
  out += "<div class=\"plots\">";
  for (const auto& [quantity, members] : by_quantity)
    out += fmt::format("<figure><figcaption>{}</figcaption>{}</figure>", quantity,
                       scatter(members, colours));
  return out + "</div>" + families_table(rows, colours) + html_rows(rows) + "</html>\n";
}

}  // namespace trainyard
