#include "tools/trainyard/assumptions.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>

#include "core/config/load.h"
#include "core/config/nearest.h"
#include "core/config/settings.h"
#include "core/config/toml_reader.h"
#include "core/error.h"
#include "tools/trainyard/inputs.h"

namespace trainyard {
namespace {

constexpr const char* kSections[] = {"runs", "kernels", "collectives"};

// Columns that a table may lack: a condition on one does not hold then.
constexpr std::string_view kOptional[] = {"name", "params", "network_gbps_per_gpu"};

// Values that published_run fills in: no scenario's own.
bool is_filled_in(std::string_view set) {
  const std::string_view value = set.substr(std::min(set.size(), set.find('=') + 1));
  return value == "layers" || value == "replica or less" || value.starts_with('@') ||
         value.starts_with("hidden/") || value.ends_with(" a stage") || value.ends_with(" or more");
}

}  // namespace

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
      if (set == nullptr || is_filled_in(*set)) continue;
      for (const std::string& problem : setting_problems(*set, scenario_root()))
        violations_.push_back(fmt::format("{}: {}", item.where.text(), problem));
      if (!keys.insert(set->substr(0, set->find('='))).second)
        refuse(item, "the rule sets this key twice");
    }
    return strings(value);
  }

  void refuse_column(const Value& value, const std::string& key) {
    if (!table_.has(key) && std::ranges::find(kOptional, key) == std::end(kOptional))
      violations_.push_back(
          fmt::format("{}: {}: no column of this name; valid besides columns: "
                      "name, set, default, skip, family, habit, why",
                      value.key.text(), key));
  }

  void refuse(const std::string& what) { violations_.push_back(what); }

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

namespace {

// Sections that no table has rules in.
void refuse_sections(const Table& file, std::vector<std::string>& violations) {
  const std::vector<std::string> valid(std::begin(kSections), std::end(kSections));
  for (const auto& [name, value] : file)
    if (std::ranges::find(valid, name) == valid.end())
      violations.push_back(fmt::format("{}: [[{}]]: is no section; valid: {}{}", value.key.text(),
                                       printable(name), fmt::join(valid, ", "),
                                       did_you_mean(name, valid)));
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

// Whether `wanted` is a range, "2..8" or open as "2.." and "..8", and holds the number in the cell.
bool in_range(const std::string& wanted, const std::string& cell) {
  const std::size_t dots = wanted.find("..");
  const std::optional<double> value = number(cell);
  if (dots == std::string::npos || !value) return false;
  const std::string low = wanted.substr(0, dots), high = wanted.substr(dots + 2);
  const std::optional<double> from = number(low), to = number(high);
  if ((!low.empty() && !from) || (!high.empty() && !to) || (!from && !to)) return false;
  return (!from || *from <= *value) && (!to || *value <= *to);
}

bool matches(const std::string& wanted, const std::string& cell) {
  if (wanted.starts_with('=')) return cell == wanted.substr(1);
  return cell.find(wanted) != std::string::npos || in_range(wanted, cell);
}

}  // namespace

bool Assumptions::Condition::holds(const CsvRow& row) const {
  const std::string cell =
      column == "name" ? row.text("id") + "\n" + row.text("table") + "\n" + row.text("system")
                       : row.text(column);
  const auto found = [&](const std::string& wanted) { return matches(wanted, cell); };
  return (any.empty() || std::ranges::any_of(any, found)) && std::ranges::none_of(none, found);
}

bool Assumptions::Rule::holds(const CsvRow& row) const {
  return std::ranges::all_of(conditions, [&](const Condition& each) { return each.holds(row); });
}

Assumptions::Rule Assumptions::rule(const Value& value, RuleReader& read) {
  Rule out;
  Assumed& assumed = out.assumed;
  const Table* keys = value.as<Table>();
  if (keys == nullptr) throw ConfigError(value.where.text() + ": is no table");
  for (const auto& [key, each] : *keys) {
    if (key == "habit" && each.as<bool>() != nullptr) {
      out.habit = *each.as<bool>();
    } else if (key == "set" || key == "default") {
      (key == "set" ? assumed.sets : assumed.defaults) = read.sets(each);
    } else if (key == "why") {
      assumed.why = read.strings(each);
    } else if (key == "skip" || key == "family") {
      (key == "skip" ? assumed.skip : assumed.family) = read.string(each);
    } else {
      read.refuse_column(each, key);
      Condition condition{key, {}, {}};
      for (const std::string& text : read.strings(each)) {
        if (text.starts_with('!'))
          condition.none.push_back(text.substr(1));
        else
          condition.any.push_back(text);
      }
      assumed.gpu |= key == "gpu";
      out.names_run |=
          key == "system" || std::ranges::find(kSourceColumns, key) != std::end(kSourceColumns);
      out.conditions.push_back(std::move(condition));
    }
  }
  const auto cluster = [](const std::string& set) { return set.starts_with("cluster."); };
  assumed.gpu &=
      std::ranges::any_of(assumed.sets, cluster) || std::ranges::any_of(assumed.defaults, cluster);
  const bool gives = keys->contains("set") || keys->contains("default");
  if (!gives && !keys->contains("skip") && !keys->contains("family"))
    read.refuse(value.where.text() + ": a rule needs one of set, skip, family, default");
  if (gives && !keys->contains("why"))
    read.refuse(value.where.text() + ": a rule that sets something needs its why");
  return out;
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
  for (const Value& each : *rules) rules_.push_back(rule(each, read));
  if (!violations.empty()) throw ConfigError(violations);
}

Assumed Assumptions::of(const CsvRow& row) const {
  Assumed out;
  std::vector<const Rule*> matching;
  bool known = false;
  for (const Rule& rule : rules_) {
    if (!rule.holds(row)) continue;
    matching.push_back(&rule);
    known |= rule.names_run && !rule.habit && !rule.assumed.sets.empty();
  }
  for (const Rule* rule : matching) {
    if (rule->habit && known) continue;
    const Assumed& more = rule->assumed;
    out.sets.insert(out.sets.end(), more.sets.begin(), more.sets.end());
    out.defaults.insert(out.defaults.end(), more.defaults.begin(), more.defaults.end());
    out.why.insert(out.why.end(), more.why.begin(), more.why.end());
    if (out.skip.empty()) out.skip = more.skip;
    out.gpu |= more.gpu;
    if (!more.family.empty()) out.family = more.family;
  }
  return out;
}

Assumed Assumptions::without_source_rules(const CsvRow& row) const {
  const Assumed known = of(row);
  Assumed out = of(row.without(kSourceColumns));
  out.family = known.family;
  if (!known.skip.empty()) out.skip = known.skip;
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
