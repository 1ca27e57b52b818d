#include "tools/trainyard/calibrate_from.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/report/text.h"
#include "simulator/timing.h"
#include "tools/trainyard/assumptions.h"
#include "tools/trainyard/bench_kernels.h"
#include "tools/trainyard/fit_constants.h"
#include "tools/trainyard/output.h"
#include "tools/trainyard/validate.h"

namespace trainyard {
namespace {

constexpr std::size_t kFewest = 6;  // rows a family needs to be fitted

// Rows that are fitted together, and the constants they tell.
struct Family {
  std::string name;
  std::vector<FitConstant> constants;
  FitRows rows;
};

class Selection {
 public:
  Selection(const CalibrateFrom& options, const CsvTable& table) {
    for (const std::string& text : options.where) {
      const std::size_t equals = text.find('=');
      const std::string column = text.substr(0, equals);
      if (equals == std::string::npos || !table.has(column))
        throw ConfigError(fmt::format("--where {}: valid: column=text, with a column of {}", text,
                                      options.table));
      conditions_.emplace_back(column, text.substr(equals + 1));
    }
  }
  bool takes(const CsvRow& row) const {
    for (const auto& [column, text] : conditions_)
      if (row.text(column).find(text) == std::string::npos) return false;
    return row.defect().empty() && row.positive("time_us").has_value();
  }

 private:
  std::vector<std::pair<std::string, std::string>> conditions_;
};

// Numbers groups by what names them, in the order they come.
class Groups {
 public:
  std::size_t of(const std::string& name) {
    return numbers_.emplace(name, numbers_.size()).first->second;
  }

 private:
  std::map<std::string, std::size_t> numbers_;
};

struct TimedKernels {
  std::vector<KernelSpec> kernels;
  double us;
};

std::vector<Family> kernel_families(const CsvTable& table, const Selection& selection,
                                    const Job& job) {
  struct Part {
    KernelFamily kind;
    const char* name;
    std::vector<FitConstant> constants;
    std::vector<TimedKernels> timed;
    std::vector<std::size_t> group;
  } parts[] = {{KernelFamily::gemm, "GEMM", gemm_constants(), {}, {}},
               {KernelFamily::attention, "attention", attention_constants(job), {}, {}},
               {KernelFamily::memory, "memory-bound", memory_constants(), {}, {}}};
  Groups groups;
  for (const CsvRow& row : table.rows()) {
    const BenchKernels bench = bench_kernels(row);
    if (!selection.takes(row) || !bench.skip.empty()) continue;
    // Few rows or columns are another world (decoding); training has none.
    if (bench.family == KernelFamily::gemm && bench.least_dim < 128) continue;
    std::string shape = row.text("kernel");
    for (const char* column : {"m", "n", "k", "b", "h", "hkv", "s", "d", "window"})
      shape += " " + row.text(column);
    for (Part& part : parts)
      if (part.kind == bench.family) {
        part.timed.push_back({bench.kernels, *row.positive("time_us")});
        part.group.push_back(groups.of(shape));
      }
  }
  std::vector<Family> out;
  for (Part& part : parts) {
    const auto residual = [timed = part.timed, software = job.software](std::size_t row,
                                                                        const Cluster& cluster) {
      const KernelTimer timer(cluster.gpu, software);
      double us = 0;
      for (const KernelSpec& kernel : timed[row].kernels) us += to_microseconds(timer.time(kernel));
      return std::log(us / timed[row].us);
    };
    out.push_back({part.name, part.constants, {part.group, residual}});
  }
  return out;
}

std::vector<Family> collective_families(const CsvTable& table, const Selection& selection,
                                        const Job& job) {
  struct Timed {
    CollectiveCall call;
    double us;
  };
  std::vector<Timed> timed;
  FitRows rows;
  Groups groups;
  for (const CsvRow& row : table.rows()) {
    if (!selection.takes(row)) continue;
    const CollectiveCall call = collective_call(row);
    if (!call.skip.empty() || call.op == Op::send) continue;
    timed.push_back({call, *row.positive("time_us")});
    rows.group.push_back(groups.of(row.text("op") + row.text("gpus") + " " + row.text("bytes")));
  }
  rows.residual = [timed, network = job.network](std::size_t row, const Cluster& cluster) {
    return std::log(collective_us(cluster, network, timed[row].call) / timed[row].us);
  };
  return {{"collectives", nccl_constants(), rows}};
}

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
                const std::vector<Family>& families) {
  for (const std::string& text : texts) {
    std::string valid;
    bool found = false;
    for (const Family& family : families)
      for (const FitConstant& constant : family.constants) {
        found |= contains_any(constant.key, split(text));
        valid += (valid.empty() ? "" : ", ") + constant.key;
      }
    if (!found)
      throw ConfigError(fmt::format("{} {}: valid: a part of one of {}", option, text, valid));
  }
}

// Takes out the constants that are to stay and makes those one that keep their ratios.
void restrict_constants(const CalibrateFrom& options, std::vector<Family>& families) {
  must_match("--keep", options.keep, families);
  must_match("--together", options.together, families);
  must_match("--write", options.write, families);
  for (Family& family : families) {
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
std::string constants_text(Fitted& fitted, const Family& family,
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

}  // namespace

int calibrate_from(const CalibrateFrom& options) {
  if (options.cluster.empty())
    throw ConfigError("--from needs --cluster: the preset whose constants are fitted");
  const CsvTable table(options.table, {"time_us"});
  const bool kernels = table.has("kernel"), collectives = table.has("op");
  if (!kernels && !collectives)
    throw ConfigError(options.table + ": has neither a column 'kernel' nor 'op'");
  std::vector<std::string> sets{"cluster.preset=" + options.cluster};
  sets.insert(sets.end(), options.sets.begin(), options.sets.end());
  const Job job = bench_job(sets);
  const Selection selection(options, table);
  std::vector<Family> families =
      kernels ? kernel_families(table, selection, job) : collective_families(table, selection, job);
  table.refuse_violations();
  restrict_constants(options, families);
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
  TextTable report;
  report.row({"family", "rows", "before %", "fitted %", "held out %"});
  Json json = Json::array();
  for (const Family& family : families) {
    const std::size_t count = family.rows.group.size();
    if (count < kFewest || family.constants.empty()) continue;
    Fitted fitted = fit(job.cluster, family.constants, family.rows, options.folds);
    report.row({family.name, fmt::format("{}", count), percent(fitted.before),
                percent(fitted.after), percent(fitted.held_out)});
    json.push_back({{"family", family.name},
                    {"rows", count},
                    {"before", fitted.before},
                    {"fitted", fitted.after},
                    {"held_out", fitted.held_out}});
    text += fmt::format(
        "\n# {}: {} rows, {} % before, {} % fitted, {} % on rows held out ({} folds)\n{}",
        family.name, count, percent(fitted.before), percent(fitted.after), percent(fitted.held_out),
        options.folds, constants_text(fitted, family, options.write));
  }
  if (json.empty())
    throw ConfigError(fmt::format("{}: fewer than {} rows of a family that can be fitted",
                                  options.table, kFewest));
  if (!options.json.empty()) PendingFile(options.json).commit(json.dump(1) + "\n");
  if (options.out.empty()) {
    print_all(text);
    fmt::print(stderr, "{}", report.text());
  } else {
    PendingFile(options.out).commit(text);
    print_all(report.text());
  }
  return 0;
}

}  // namespace trainyard
