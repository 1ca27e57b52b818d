#include "tools/trainyard/assumptions.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/config/load.h"
#include "core/config/nearest.h"
#include "core/config/settings.h"
#include "core/config/toml_reader.h"
#include "core/error.h"
#include "tools/trainyard/inputs.h"

namespace trainyard {
namespace {

constexpr const char* kSections[] = {"runs", "kernels", "collectives"};

// Reads the file, and says of each key at what place what is wrong with it.
class RuleReader {
 public:
  RuleReader(const CsvTable& table, std::vector<std::string>& violations)
      : table_(table), violations_(violations) {}

  // The strings of a value that is one or a list of them, none of them empty.
  std::vector<std::string> strings(const Value& value) {
    std::vector<std::string> out;
    const List one{value};
    for (const Value& item : items(value, one)) {
      if (auto* text = item.as<std::string>(); text == nullptr)
        refuse(item, fmt::format("is {}, not a string", item.type()));
      else if (text->empty())
        refuse(item, "says nothing");
      else
        out.push_back(*text);
    }
    if (items(value, one).empty()) refuse(value, "names nothing");
    return out;
  }

  std::string string(const Value& value) {
    if (value.as<List>() != nullptr) refuse(value, "is a list; one text is needed");
    const std::vector<std::string> text = strings(value);
    return text.empty() ? "" : text[0];
  }

  // Settings that could each stand in a scenario file, none of them twice.
  std::vector<std::string> sets(const Value& value) {
    std::set<std::string> keys;
    const List one{value};
    for (const Value& item : items(value, one)) {
      auto* set = item.as<std::string>();
      if (set == nullptr || *set == "parallel.virtual_stages=layers") continue;
      for (const std::string& problem : setting_problems(*set, scenario_root()))
        violations_.push_back(fmt::format("{}: {}", item.where.text(), problem));
      if (!keys.insert(set->substr(0, set->find('='))).second)
        refuse(item, "the rule sets this key twice");
    }
    return strings(value);
  }

  void refuse_column(const Value& value, const std::string& key) {
    if (!table_.has(key))
      violations_.push_back(
          fmt::format("{}: {}: no column of this name; valid besides columns: "
                      "set, skip, family, why",
                      value.key.text(), key));
  }

 private:
  static const List& items(const Value& value, const List& one) {
    return value.as<List>() != nullptr ? *value.as<List>() : one;
  }
  void refuse(const Value& value, std::string_view what) {
    violations_.push_back(fmt::format("{}: {}: {}", value.where.text(), value.text(), what));
  }

  const CsvTable& table_;
  std::vector<std::string>& violations_;
};

// Sections that no table has rules in.
void refuse_sections(const Table& file, std::vector<std::string>& violations) {
  const std::vector<std::string> valid(std::begin(kSections), std::end(kSections));
  for (const auto& [name, value] : file)
    if (std::ranges::find(valid, name) == valid.end())
      violations.push_back(fmt::format("{}: [[{}]]: is no section; valid: {}{}", value.key.text(),
                                       printable(name), fmt::join(valid, ", "),
                                       did_you_mean(name, valid)));
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
  refuse_sections(file, violations);
  const auto found = file.find(section);
  const List* rules = found == file.end() ? nullptr : found->second.as<List>();
  if (rules == nullptr) violations.push_back(fmt::format("{}: has no [[{}]]", path, section));
  if (rules == nullptr) throw ConfigError(violations);
  RuleReader read(table, violations);
  for (const Value& each : *rules) {
    Rule rule;
    Assumed& assumed = rule.assumed;
    const Table* keys = each.as<Table>();
    if (keys == nullptr) throw ConfigError(each.where.text() + ": is no table");
    for (const auto& [key, value] : *keys) {
      if (key == "set") {
        assumed.sets = read.sets(value);
      } else if (key == "why") {
        assumed.why = read.strings(value);
      } else if (key == "skip") {
        assumed.skip = read.string(value);
      } else if (key == "family") {
        assumed.family = read.string(value);
      } else {
        read.refuse_column(value, key);
        rule.conditions.push_back({key, read.strings(value)});
        assumed.gpu |= key == "gpu";
      }
    }
    assumed.gpu &= std::ranges::any_of(
        assumed.sets, [](const std::string& set) { return set.starts_with("cluster."); });
    const bool idle =
        !keys->contains("set") && !keys->contains("skip") && !keys->contains("family");
    if (idle) violations.push_back(each.where.text() + ": a rule needs one of set, skip, family");
    if (keys->contains("set") && !keys->contains("why"))
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
    out.gpu |= rule.assumed.gpu;
    if (!rule.assumed.family.empty()) out.family = rule.assumed.family;
  }
  return out;
}

std::string why_refused(const ConfigError& error) {
  std::string out;
  for (std::string violation : error.violations()) {
    if (violation.starts_with("--set:")) violation.erase(0, violation.find(": ") + 2);
    out += (out.empty() ? "" : "; ") + violation;
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
