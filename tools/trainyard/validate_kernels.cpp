#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cmath>

#include "core/config/value.h"
#include "core/error.h"
#include "simulator/timing.h"
#include "tools/trainyard/assumptions.h"
#include "tools/trainyard/bench_kernels.h"
#include "tools/trainyard/validate.h"

namespace trainyard {
namespace {

std::vector<std::string> families_of(const CsvRow& row, const BenchKernels& bench) {
  const std::string gpu = gpu_generation(row.text("gpu"));
  std::string own;
  std::vector<std::string> out;
  switch (bench.family) {
    case KernelFamily::gemm:
      own = gpu + (row.text("dtype") == "fp8" ? " fp8" : "") +
            (bench.least_dim >= 512   ? " gemm >= 512"
             : bench.least_dim >= 128 ? " gemm >= 128"
                                      : " gemm < 128");
      out = {own};
      if (bench.least_dim >= 512 && row.text("dtype") != "fp8") out.push_back(gpu + " gemm >= 128");
      break;
    case KernelFamily::attention:
      own = gpu + " attention";
      out = {own};
      break;
    case KernelFamily::memory:
      own = gpu + " memory-bound";
      out = {own, own + " " + row.text("kernel")};
      break;
  }
  const std::string& source = row.text("source");
  out.push_back(fmt::format("{} | {} {}", own, source.substr(0, source.find_first_of("@ ")),
                            row.text("impl").substr(0, 48)));
  return out;
}

std::string id_of(const CsvRow& row) {
  std::string out = fmt::format("{}: {} {} {} {}", row.line(), row.text("gpu"), row.text("kernel"),
                                row.text("dtype"), row.text("direction"));
  for (const char* column : {"m", "n", "k", "b", "h", "hkv", "s", "d", "window"})
    if (!row.text(column).empty()) out += fmt::format(" {}={}", column, row.text(column));
  return out;
}

}  // namespace

std::vector<ValidatedRow> validate_kernels(const ValidationFiles& files) {
  const CsvTable table(
      files.table, {"gpu", "kernel", "dtype", "m", "n", "k", "b", "h", "hkv", "s", "d", "causal",
                    "window", "direction", "impl", "time_us", "source"});
  const Assumptions assumptions(files.assumptions, "kernels", table);
  BenchJobs jobs;
  std::vector<ValidatedRow> out;
  for (const CsvRow& row : table.rows()) {
    const BenchKernels bench = bench_kernels(row);
    const Assumed assumed = assumptions.of(row);
    ValidatedRow& result = out.emplace_back();
    result.id = id_of(row);
    result.families =
        row.defect().empty() ? families_of(row, bench) : std::vector<std::string>{kTornFamily};
    result.quantity = "time_us";
    result.published = row.positive("time_us").value_or(kUnknown);
    result.assumed = fmt::format("{}", fmt::join(assumed.sets, ", "));
    result.skipped = bench.skip.empty() ? assumed.skip : bench.skip;
    if (!row.defect().empty()) result.skipped = row.defect();
    if (result.skipped.empty() && !assumed.gpu)
      result.skipped =
          fmt::format("no rule names a profile of the GPU '{}'", printable(row.text("gpu")));
    if (result.skipped.empty() && std::isnan(result.published)) result.skipped = "no time is told";
    if (!result.skipped.empty()) continue;
    try {
      const Job& job = jobs.of(assumed.sets);
      const KernelTimer timer(job.cluster.gpu, job.software);
      result.predicted = 0;
      for (const KernelSpec& kernel : bench.kernels)
        result.predicted += to_microseconds(timer.time(kernel));
    } catch (const ConfigError& error) {
      result.predicted = kUnknown;
      result.skipped = why_refused(error);
    }
  }
  table.refuse_violations();
  return out;
}

}  // namespace trainyard
