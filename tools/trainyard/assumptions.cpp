#include "tools/trainyard/assumptions.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/config/load.h"
#include "core/config/toml_reader.h"
#include "core/error.h"
#include "tools/trainyard/inputs.h"

namespace trainyard {
namespace {

// The strings of a value that is one or a list of them; anything else is a violation.
std::vector<std::string> strings(const Value& value, std::vector<std::string>& violations) {
  std::vector<std::string> out;
  const List one{value};
  for (const Value& item : value.as<List>() != nullptr ? *value.as<List>() : one) {
    if (auto* text = item.as<std::string>())
      out.push_back(*text);
    else
      violations.push_back(
          fmt::format("{}: {}: is {}, not a string", item.where.text(), item.text(), item.type()));
  }
  return out;
}

}  // namespace

bool Assumptions::Condition::holds(const std::string& cell) const {
  return std::ranges::any_of(any, [&](const std::string& wanted) {
    return wanted.starts_with('=') ? cell == wanted.substr(1)
                                   : cell.find(wanted) != std::string::npos;
  });
}

Assumptions::Assumptions(const std::string& path, const std::string& section,
                         const CsvTable& table) {
  std::vector<std::string> violations;
  const Table file = read_toml(path);
  const auto found = file.find(section);
  const List* rules = found == file.end() ? nullptr : found->second.as<List>();
  if (rules == nullptr) throw ConfigError(fmt::format("{}: has no [[{}]]", path, section));
  for (const Value& each : *rules) {
    Rule rule;
    const Table* keys = each.as<Table>();
    if (keys == nullptr) throw ConfigError(each.where.text() + ": is no table");
    for (const auto& [key, value] : *keys) {
      if (key == "set") {
        rule.assumed.sets = strings(value, violations);
      } else if (key == "why") {
        rule.assumed.why = strings(value, violations);
      } else if (key == "skip" || key == "family") {
        const std::vector<std::string> text = strings(value, violations);
        if (!text.empty()) (key == "skip" ? rule.assumed.skip : rule.assumed.family) = text[0];
      } else {
        if (!table.has(key))
          violations.push_back(
              fmt::format("{}: {}: no column of this name; valid besides columns: "
                          "set, skip, family, why",
                          value.key.text(), key));
        rule.conditions.push_back({key, strings(value, violations)});
      }
    }
    if (!rule.assumed.sets.empty() && rule.assumed.why.empty())
      violations.push_back(each.where.text() + ": a rule that sets something needs its why");
    rules_.push_back(std::move(rule));
  }
  if (!violations.empty()) throw ConfigError(violations);
}

Assumed Assumptions::of(const CsvRow& row) const {
  Assumed out;
  for (const Rule& rule : rules_) {
    const bool matches = std::ranges::all_of(rule.conditions, [&](const Condition& condition) {
      return condition.holds(row.text(condition.column));
    });
    if (!matches) continue;
    out.sets.insert(out.sets.end(), rule.assumed.sets.begin(), rule.assumed.sets.end());
    out.why.insert(out.why.end(), rule.assumed.why.begin(), rule.assumed.why.end());
    if (out.skip.empty()) out.skip = rule.assumed.skip;
    if (!rule.assumed.family.empty()) out.family = rule.assumed.family;
  }
  return out;
}

Job bench_job(const std::vector<std::string>& sets) {
  std::vector<std::string> all{"model.layers=1",
                               "model.hidden=64",
                               "model.heads=1",
                               "model.vocab=128",
                               "model.attention=unfused",
                               "batch.sequence_length=16",
                               "batch.global_sequences=64",
                               "parallel.data=1",
                               "training.precision=fp16"};
  all.insert(all.end(), sets.begin(), sets.end());
  return load_job({}, all, scenario_root());
}

const Job& BenchJobs::of(const std::vector<std::string>& sets) {
  const auto found = jobs_.find(sets);
  return found != jobs_.end() ? found->second : jobs_.emplace(sets, bench_job(sets)).first->second;
}

}  // namespace trainyard
