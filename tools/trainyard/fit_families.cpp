#include "tools/trainyard/fit_families.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "core/error.h"
#include "simulator/timing.h"
#include "tools/trainyard/bench_kernels.h"
#include "tools/trainyard/fit_constants.h"
#include "tools/trainyard/validate.h"

namespace trainyard {
namespace {

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
  std::size_t size() const { return numbers_.size(); }

 private:
  std::map<std::string, std::size_t> numbers_;
};

struct TimedKernels {
  std::vector<KernelSpec> kernels;
  double us;
};

std::vector<FitFamily> kernel_families(const CsvTable& table, const Selection& selection,
                                       const Job& job) {
  struct Part {
    KernelFamily kind;
    const char* name;
    std::vector<FitConstant> constants;
    std::vector<TimedKernels> timed = {};
    std::vector<std::size_t> group = {};
    Groups groups = {};  // numbered by family: every fold holds out some of each
    std::set<std::string> gpus = {};
  } parts[] = {{KernelFamily::gemm, "GEMM", gemm_constants()},
               {KernelFamily::attention, "attention", attention_constants(job)},
               {KernelFamily::memory, "memory-bound", memory_constants()}};
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
        part.group.push_back(part.groups.of(shape));
        part.gpus.insert(gpu_generation(row.text("gpu")));
      }
  }
  std::vector<FitFamily> out;
  for (Part& part : parts) {
    const auto residual = [timed = part.timed, software = job.software](std::size_t row,
                                                                        const Cluster& cluster) {
      const KernelTimer timer(cluster.gpu, software);
      double us = 0;
      for (const KernelSpec& kernel : timed[row].kernels) us += to_microseconds(timer.time(kernel));
      return std::log(us / timed[row].us);
    };
    out.push_back(
        {part.name, part.constants, {part.group, residual}, part.groups.size(), part.gpus});
  }
  return out;
}

std::vector<FitFamily> collective_families(const CsvTable& table, const Selection& selection,
                                           const Job& job) {
  struct Timed {
    CollectiveCall call;
    double us;
  };
  std::vector<Timed> timed;
  FitRows rows;
  Groups groups;
  std::set<std::string> gpus;
  for (const CsvRow& row : table.rows()) {
    if (!selection.takes(row)) continue;
    const CollectiveCall call = collective_call(row);
    if (!call.skip.empty() || call.op == Op::send) continue;
    timed.push_back({call, *row.positive("time_us")});
    rows.group.push_back(groups.of(row.text("op") + row.text("gpus") + " " + row.text("bytes")));
    gpus.insert(gpu_generation(row.text("gpu")));
  }
  rows.residual = [timed, network = job.network](std::size_t row, const Cluster& cluster) {
    return std::log(collective_us(cluster, network, timed[row].call) / timed[row].us);
  };
  return {{"collectives", nccl_constants(), rows, groups.size(), gpus}};
}

}  // namespace

std::vector<FitFamily> fit_families(const CalibrateFrom& options, const CsvTable& table,
                                    const Job& job) {
  const bool kernels = table.has("kernel"), collectives = table.has("op");
  if (!kernels && !collectives)
    throw ConfigError(options.table + ": has neither a column 'kernel' nor 'op'");
  const Selection selection(options, table);
  std::vector<FitFamily> families =
      kernels ? kernel_families(table, selection, job) : collective_families(table, selection, job);
  table.refuse_violations();
  return families;
}

}  // namespace trainyard
