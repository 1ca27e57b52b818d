#include "tools/trainyard/calibrate_from.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "core/report/text.h"
#include "tools/trainyard/assumptions.h"
#include "tools/trainyard/fit_families.h"
#include "tools/trainyard/output.h"

namespace trainyard {
namespace {

// Rows that a family needs to be fitted, and shapes: fewer leave nothing to hold out.
constexpr std::size_t kFewestRows = 6, kFewestShapes = 3;
constexpr double kNotOfThese = 0.5;  // mean error after a fit that no kernel of this GPU has

bool contains_any(const std::string& key, const std::vector<std::string>& texts) {
  return std::ranges::any_of(
      texts, [&](const std::string& text) { return key.find(text) != std::string::npos; });
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts{""};
  for (const char c : text)
    if (c == ',')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

// Throws if one of the texts that `option` was given is in no constant's key.
void must_match(const char* option, const std::vector<std::string>& texts,
                const std::vector<FitFamily>& families) {
  for (const std::string& text : texts) {
    std::string valid;
    bool found = false;
    for (const FitFamily& family : families)
      for (const FitConstant& constant : family.constants) {
        found |= contains_any(constant.key, split(text));
        valid += (valid.empty() ? "" : ", ") + constant.key;
      }
    if (!found)
      throw ConfigError(fmt::format("{} {}: valid: a part of one of {}", option, text, valid));
  }
}

// Takes out the constants that are to stay and makes those one that keep their ratios.
void restrict_constants(const CalibrateFrom& options, std::vector<FitFamily>& families) {
  must_match("--keep", options.keep, families);
  must_match("--together", options.together, families);
  must_match("--write", options.write, families);
  for (FitFamily& family : families) {
    std::vector<FitConstant>& all = family.constants;
    std::erase_if(all, [&](const FitConstant& c) { return contains_any(c.key, options.keep); });
    for (const std::string& text : options.together) {
      const auto rest = std::stable_partition(all.begin(), all.end(), [&](const FitConstant& c) {
        return !contains_any(c.key, split(text));
      });
      if (rest == all.end()) continue;
      rest->along.assign(rest + 1, all.end());
      all.erase(rest + 1, all.end());
    }
  }
}

// Constants as TOML writes them, lists whole; without headers of tables, so that files of several
// fits can be put together. `write` empty: all.
std::string constants_text(Fitted& fitted, const FitFamily& family,
                           const std::vector<std::string>& write) {
  std::string comments, keys, efficiencies;
  const auto add = [&](const FitConstant& constant, bool matters) {
    const double value = constant.at(fitted.cluster);
    if (constant.key.find("tile_efficiency") != std::string::npos) {
      efficiencies += fmt::format("{}{:.4g}", efficiencies.empty() ? "" : ", ", value);
    } else if (!matters) {
      comments += "# not fitted, no row depends on it: " + constant.key + "\n";
    } else if (!write.empty() && !contains_any(constant.key, write)) {
      comments += fmt::format("# these rows' own: {} = {:.4g}\n", constant.key, value);
    } else {
      keys += fmt::format("{} = {:.4g}\n", constant.key, value);
    }
  };
  for (std::size_t i = 0; i < family.constants.size(); ++i) {
    add(family.constants[i], fitted.matters[i]);
    for (const FitConstant& other : family.constants[i].along) add(other, fitted.matters[i]);
  }
  if (!efficiencies.empty()) keys += "cluster.gpu.gemm.tile_efficiency = [" + efficiencies + "]\n";
  return comments + keys;
}

// What a user should know before believing the constants.
std::vector<std::string> doubts(const FitFamily& family, Fitted& fitted) {
  std::vector<std::string> out;
  if (family.gpus.size() > 1)
    out.push_back(fmt::format("rows of {} GPUs are fitted as one: {}; --where gpu=TEXT chooses",
                              family.gpus.size(), fmt::join(family.gpus, ", ")));
  if (fitted.after > kNotOfThese)
    out.push_back(
        fmt::format("predictions are {} % off even so: are the times microseconds, and of "
                    "the preset's GPU?",
                    percent(fitted.after)));
  for (std::size_t i = 0; i < family.constants.size(); ++i) {
    const FitConstant& constant = family.constants[i];
    const double value = constant.at(fitted.cluster);
    if (fitted.matters[i] && (value == constant.high || (value == constant.low && value > 0)))
      out.push_back(fmt::format("{} stopped at its bound, {:.4g}", constant.key, value));
  }
  return out;
}

// Where a fit's results go, refused before the work if they must be.
class FitFiles {
 public:
  explicit FitFiles(const CalibrateFrom& options) : json_on_stdout_(options.json == "-") {
    if (json_on_stdout_ && options.out.empty())
      throw ConfigError(
          "--json - needs --out FILE: the profile would go to standard output as well");
    for (const std::string& file : {options.out, options.json})
      if (!file.empty() && file == options.table)
        throw ConfigError(fmt::format("{}: is the table that is fitted to", file));
    if (!options.out.empty() && options.json == options.out)
      throw ConfigError(fmt::format("{}: two results cannot go into one file", options.out));
    if (!options.out.empty()) out_.emplace(options.out);
    if (!options.json.empty() && !json_on_stdout_) json_.emplace(options.json);
  }

  // The table of errors goes where neither the profile nor the JSON does.
  void write(const std::string& profile, const Json& json, const std::string& errors) {
    const std::string dump = json.dump(1) + "\n";
    if (json_) json_->commit(dump);
    if (out_) out_->commit(profile);
    if (!out_) print_all(profile);
    if (json_on_stdout_) print_all(dump);
    if (out_ && !json_on_stdout_)
      print_all(errors);
    else
      fmt::print(stderr, "{}", errors);
  }

 private:
  bool json_on_stdout_;
  std::optional<PendingFile> out_, json_;
};

// What a profile says first: the table, and from where and how its constants were moved.
std::string provenance(const CalibrateFrom& options, const std::vector<std::string>& sets) {
  std::string text = fmt::format(
      "# Written by trainyard calibrate --from {}, fitted to rows with {}\n"
      "# starting from {}. Errors are means of |predicted / measured - 1|.\n",
      options.table,
      options.where.empty() ? "any text" : fmt::format("{}", fmt::join(options.where, ", ")),
      fmt::join(sets, ",\n# "));
  if (!options.keep.empty())
    text += fmt::format("# Not moved: {}.\n", fmt::join(options.keep, ", "));
  if (!options.together.empty())
    text += fmt::format("# Ratios kept: {}.\n", fmt::join(options.together, ", "));
  if (!options.constants_only) text += fmt::format("cluster.preset = \"{}\"\n", options.cluster);
  return text;
}

}  // namespace

int calibrate_from(const CalibrateFrom& options) {
  if (options.cluster.empty())
    throw ConfigError("--from needs --cluster: the preset whose constants are fitted");
  const CsvTable table(options.table, {"time_us"});
  std::vector<std::string> sets{"cluster.preset=" + options.cluster};
  sets.insert(sets.end(), options.sets.begin(), options.sets.end());
  const Job job = bench_job(sets);
  std::vector<FitFamily> families = fit_families(options, table, job);
  restrict_constants(options, families);
  FitFiles files(options);
  std::string text = provenance(options, sets);
  TextTable report;
  report.row({"family", "rows", "before %", "fitted %", "held out %"});
  Json json = Json::array();
  for (const FitFamily& family : families) {
    const std::size_t count = family.rows.group.size();
    if (count < kFewestRows || family.shapes < kFewestShapes || family.constants.empty()) continue;
    Fitted fitted = fit(job.cluster, family.constants, family.rows, options.folds);
    report.row({family.name, fmt::format("{}", count), percent(fitted.before),
                percent(fitted.after), percent(fitted.held_out)});
    const std::vector<std::string> warnings = doubts(family, fitted);
    json.push_back({{"family", family.name},
                    {"rows", count},
                    {"before", fitted.before},
                    {"fitted", fitted.after},
                    {"held_out", fitted.held_out},
                    {"warnings", warnings}});
    text += fmt::format(
        "\n# {}: {} rows, {} % before, {} % fitted, {} % on rows held out ({} folds)\n{}",
        family.name, count, percent(fitted.before), percent(fitted.after), percent(fitted.held_out),
        options.folds, constants_text(fitted, family, options.write));
    for (const std::string& warning : warnings) {
      text += fmt::format("# Note: {}\n", warning);
      fmt::print(stderr, "warning: {}: {}\n", family.name, warning);
    }
  }
  if (json.empty())
    throw ConfigError(
        fmt::format("{}: fewer than {} rows, or than {} shapes, of a family that can be "
                    "fitted",
                    options.table, kFewestRows, kFewestShapes));
  files.write(text, json, report.text());
  return 0;
}

}  // namespace trainyard
