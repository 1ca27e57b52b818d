#include "tools/trainyard/explain.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/report/text.h"
#include "simulator/timing.h"

namespace trainyard {
namespace {

// Time at peak FLOP/s relative to the modelled time, over the kernels of one cost class of the
// stage that bounds the step; 1 when it has none.
double peak_over_modelled(const SimReport& base, CostClass cost) {
  const Job& job = base.planned.job;
  const Program& program = *base.planned.programs.by_stage[base.result.bounding_stage];
  const KernelTimer timer(job.cluster.gpu, job.software, threads_of_rank(job));
  double flops = 0, modelled = 0;
  for (const Instr& instr : program.code) {
    if (instr.op != Op::kernel) continue;
    const KernelSpec& kernel = program.kernels[instr.what];
    if (kernel_info(kernel.kind).cost != cost) continue;
    flops += kernel.flops;
    modelled += to_seconds(timer.time(kernel));
  }
  const double peak = peak_rate(job.cluster.gpu, job.training.precision).value;
  return modelled > 0 ? flops / peak / modelled : 1;
}

struct WhatIf {
  std::string text;
  CostScale scale;
  bool undisturbed = false;
};

std::vector<WhatIf> what_ifs(const SimReport& base) {
  const auto one = [](const char* text, double CostScale::*part, double factor = 0) {
    WhatIf out{text, {}};
    out.scale.*part = factor;
    return out;
  };
  std::vector<WhatIf> out{
      one("GEMMs at peak FLOP/s", &CostScale::gemm, peak_over_modelled(base, CostClass::gemm)),
      one("attention at peak FLOP/s", &CostScale::attention,
          peak_over_modelled(base, CostClass::attention)),
      one("memory-bound kernels free", &CostScale::memory),
      one("optimizer free", &CostScale::optimizer),
      one("tensor communication free", &CostScale::tensor_comm),
      one("pipeline communication free", &CostScale::pipeline_comm),
      one("data communication free", &CostScale::data_comm),
      one("kernel launches free", &CostScale::launch),
      one("data loading free", &CostScale::data_loading),
      one("host pauses gone", &CostScale::host)};
  const Job& job = base.planned.job;
  if (!job.faults.empty() || job.cluster.node.gpu_spread > 0)
    out.push_back({"no stragglers", {}, true});
  return out;
}

Time iteration_if(const SimReport& base, const WhatIf& what_if, SimulationOptions options) {
  options.scale = what_if.scale;
  options.traced.clear();
  if (!what_if.undisturbed)
    return simulate(base.planned.job, base.planned.programs, options).iteration;
  Job job = base.planned.job;
  job.faults.clear();
  job.cluster.node.gpu_spread = 0;
  return simulate(job, base.planned.programs, options).iteration;
}

}  // namespace

std::string explain(const SimReport& base, const SimulationOptions& options) {
  struct Gain {
    std::string text;
    Time time;
  };
  std::vector<Gain> gains{
      {"no pipeline bubble", base.result.breakdown[static_cast<int>(Cause::bubble)]}};
  for (const WhatIf& what_if : what_ifs(base))
    gains.push_back({what_if.text, base.result.iteration - iteration_if(base, what_if, options)});
  std::stable_sort(gains.begin(), gains.end(),
                   [](const Gain& a, const Gain& b) { return a.time > b.time; });
  const TimeUnit unit(to_seconds(base.result.iteration));
  TextTable table;
  table.row({"what would gain most", std::string("saves ") + unit.name(), "% of the step",
             "MFU would be %"});
  for (std::size_t i = 0; i < 5; ++i) {
    const double part = ratio(gains[i].time, base.result.iteration);
    table.row({gains[i].text, unit.text(to_seconds(gains[i].time)), percent(part),
               percent(base.throughput.mfu / (1 - part))});
  }
  return table.text();
}

Json read_result(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError(path + ": cannot be read");
  const Json out = Json::parse(file, nullptr, false);
  if (!out.is_object() || out.value("schema", "") != "trainyard-sim-1")
    throw ConfigError(path + ": is no result of `trainyard sim --json`");
  return out;
}

std::string difference(const Json& mine, const Json& other) {
  const auto number = [](const Json& in, const std::string& key) {
    return in.contains(key) && in[key].is_number() ? in[key].get<double>() : 0.0;
  };
  const TimeUnit unit(number(mine, "iteration_time_s"));
  TextTable table;
  table.row({fmt::format("against {}, {}", other.value("scenario", "?"), unit.name()), "this",
             "other", "difference"});
  const auto row = [&](const std::string& name, const Json& a, const Json& b,
                       const std::string& key) {
    table.row({name, unit.text(number(a, key)), unit.text(number(b, key)),
               unit.signed_text(number(a, key) - number(b, key))});
  };
  const Json empty = Json::object();
  const Json& theirs = other.contains("breakdown_s") ? other["breakdown_s"] : empty;
  for (const auto& item : mine["breakdown_s"].items())
    row("  " + item.key(), mine["breakdown_s"], theirs, item.key());
  row("iteration time", mine, other, "iteration_time_s");
  return table.text();
}

}  // namespace trainyard
