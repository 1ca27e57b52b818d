#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/report/text.h"
#include "tools/trainyard/validate.h"

namespace trainyard {
namespace {

// Value below which `part` of the sorted values lie, on a line between the two nearest.
double quantile(const std::vector<double>& sorted, double part) {
  const double at = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const double above = sorted[std::min(below + 1, sorted.size() - 1)];
  return std::lerp(sorted[below], above, at - static_cast<double>(below));
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

FamilySummary summary(const std::string& name, const std::vector<const ValidatedRow*>& rows) {
  FamilySummary out;
  out.name = name;
  std::vector<double> errors, sizes, factors;
  std::size_t with_interval = 0, held = 0;
  for (const ValidatedRow* row : rows) {
    if (!row->skipped.empty()) {
      ++out.skipped;
      continue;
    }
    errors.push_back(row->error());
    sizes.push_back(std::abs(row->error()));
    factors.push_back(std::abs(std::log(row->predicted / row->published)));
    if (std::isnan(row->low)) continue;
    ++with_interval;
    if (row->low <= row->published && row->published <= row->high) ++held;
  }
  out.rows = errors.size();
  if (errors.empty()) return out;
  std::ranges::sort(sizes);
  std::ranges::sort(factors);
  out.mean_error = mean(errors);
  out.mean_abs_error = mean(sizes);
  out.median_abs_error = quantile(sizes, 0.5);
  out.p90_abs_error = quantile(sizes, 0.9);
  out.max_abs_error = sizes.back();
  out.median_factor = std::exp(quantile(factors, 0.5));
  if (with_interval > 0)
    out.coverage = static_cast<double>(held) / static_cast<double>(with_interval);
  return out;
}

Json number(double value) { return std::isnan(value) ? Json() : Json(value); }

Json summary_json(const FamilySummary& family) {
  return {{"name", family.name},
          {"rows", family.rows},
          {"skipped", family.skipped},
          {"median_abs_error", number(family.median_abs_error)},
          {"mean_abs_error", number(family.mean_abs_error)},
          {"p90_abs_error", number(family.p90_abs_error)},
          {"max_abs_error", number(family.max_abs_error)},
          {"mean_error", number(family.mean_error)},
          {"median_factor", number(family.median_factor)},
          {"coverage", number(family.coverage)}};
}

std::string percent_or_blank(double part) { return std::isnan(part) ? "" : percent(part); }

std::string value_text(double value) {
  return std::isnan(value) ? "" : fmt::format("{:.5g}", value);
}

std::string rows_table(const std::vector<ValidatedRow>& rows) {
  TextTable table;
  table.row({"row", "quantity", "published", "predicted", "low", "high", "error %"});
  std::string skipped;
  for (const ValidatedRow& row : rows) {
    if (!row.skipped.empty())
      skipped += fmt::format("not predicted: {}: {}\n", row.id, row.skipped);
    else
      table.row({row.id, row.quantity, value_text(row.published), value_text(row.predicted),
                 value_text(row.low), value_text(row.high), percent(row.error())});
  }
  return table.text() + skipped + "\n";
}

}  // namespace

std::string gpu_generation(const std::string& gpu) {
  return gpu.substr(0, gpu.find_first_of("- ("));
}

std::vector<FamilySummary> summarise(const std::vector<ValidatedRow>& rows) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const ValidatedRow*>> members;
  std::vector<const ValidatedRow*> all;
  for (const ValidatedRow& row : rows) {
    all.push_back(&row);
    for (const std::string& family : row.families) {
      if (!members.contains(family)) order.push_back(family);
      members[family].push_back(&row);
    }
  }
  std::vector<FamilySummary> out;
  for (const std::string& family : order) out.push_back(summary(family, members[family]));
  out.push_back(summary("all", all));
  return out;
}

Json validation_json(const std::vector<ValidatedRow>& rows) {
  Json out;
  out["schema"] = "trainyard-validate-1";
  Json& list = out["rows"] = Json::array();
  for (const ValidatedRow& row : rows) {
    list.push_back({{"id", row.id},
                    {"family", row.families.empty() ? "" : row.families[0]},
                    {"quantity", row.quantity},
                    {"published", number(row.published)},
                    {"predicted", number(row.predicted)},
                    {"low", number(row.low)},
                    {"high", number(row.high)},
                    {"error", number(row.error())},
                    {"assumed", row.assumed},
                    {"skipped", row.skipped.empty() ? Json() : Json(row.skipped)}});
    for (const auto& [cause, seconds] : row.breakdown_s)
      list.back()["breakdown_s"][cause] = seconds;
  }
  std::vector<FamilySummary> families = summarise(rows);
  out["all"] = summary_json(families.back());
  families.pop_back();
  Json& summaries = out["families"] = Json::array();
  for (const FamilySummary& family : families) summaries.push_back(summary_json(family));
  return out;
}

std::string validation_text(const std::vector<ValidatedRow>& rows, bool each) {
  TextTable table;
  table.row({"family", "rows", "skipped", "mean |error| %", "median", "p90", "max", "mean error",
             "median factor", "in interval %"});
  for (const FamilySummary& family : summarise(rows))
    table.row({family.name, grouped(static_cast<std::int64_t>(family.rows)),
               grouped(static_cast<std::int64_t>(family.skipped)),
               percent_or_blank(family.mean_abs_error), percent_or_blank(family.median_abs_error),
               percent_or_blank(family.p90_abs_error), percent_or_blank(family.max_abs_error),
               percent_or_blank(family.mean_error),
               std::isnan(family.median_factor) ? "" : fmt::format("{:.3f}", family.median_factor),
               percent_or_blank(family.coverage)});
  std::map<std::string, std::size_t> reasons;
  for (const ValidatedRow& row : rows)
    if (!row.skipped.empty()) ++reasons[row.skipped];
  std::string out = (each ? rows_table(rows) : "") + table.text();
  for (const auto& [reason, count] : reasons)
    out += fmt::format("not predicted: {} rows: {}\n", count, reason);
  return out;
}

}  // namespace trainyard
