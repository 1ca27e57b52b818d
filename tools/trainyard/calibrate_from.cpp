#include "tools/trainyard/calibrate_from.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

constexpr std::size_t kFewest = 10;  // rows a family needs to be fitted

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

// "a.b.c" as TOML writes it: a table's name and a key. Lists are written whole.
std::string constants_text(Fitted& fitted, const Family& family) {
  std::map<std::string, std::string> tables;
  std::string not_fitted, efficiencies;
  for (std::size_t i = 0; i < family.constants.size(); ++i) {
    const FitConstant& constant = family.constants[i];
    const std::size_t dot = constant.key.rfind('.');
    const double value = constant.at(fitted.cluster);
    if (constant.key.find("tile_efficiency") != std::string::npos) {
      efficiencies += fmt::format("{}{:.4g}", efficiencies.empty() ? "" : ", ", value);
    } else if (fitted.matters[i]) {
      tables[constant.key.substr(0, dot)] +=
          fmt::format("{} = {:.4g}\n", constant.key.substr(dot + 1), value);
    } else {
      not_fitted += "# not fitted, no row depends on it: " + constant.key + "\n";
    }
  }
  if (!efficiencies.empty())
    tables["cluster.gpu.gemm"] += "tile_efficiency = [" + efficiencies + "]\n";
  std::string out = not_fitted;
  for (const auto& [name, keys] : tables) out += fmt::format("[{}]\n{}", name, keys);
  return out;
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
  std::string text = fmt::format(
      "# Written by trainyard calibrate --from {}, fitted to rows with {}\n"
      "# starting from {}. Errors are means of |predicted / measured - 1|.\n",
      options.table,
      options.where.empty() ? "any text" : fmt::format("{}", fmt::join(options.where, ", ")),
      fmt::join(sets, ",\n# "));
  if (!options.constants_only) text += fmt::format("[cluster]\npreset = \"{}\"\n", options.cluster);
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
        options.folds, constants_text(fitted, family));
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
