#include "tools/trainyard/interval.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/random.h"

namespace trainyard {
namespace {

// Standard deviations of logarithms, from the kernel and collective tables, never from runs.
// Products: machines and stacks of one GPU differ by 0.87 to 1.07 (aiconfigurator, vidur, SimuMax,
// LLMCompass on A100; 0.86 to 0.94 on H100), 0.06 as a deviation; residuals of single shapes, 4 to
// 8 %, average out over a layer's products and add 0.02. `validate --kernels` is 5 to 8 % off for
// attention in the mean, a deviation of 0.085, and 12 to 14 % for memory-bound kernels, 0.16, of
// which a layer has a few kinds: 0.10. The optimizer is one kind.
constexpr double kKernels[] = {0.063, 0.085, 0.10, 0.16};  // by CostClass
// `validate --collectives` has median factors of 1.04 to 1.17 by size, 1.09 over all, which is 0.13
// for collectives and messages; the slow-down amid a training step, 1.3 in the mean (vTrain), is
// taken to lie between 1 and 1.6: 0.15 more.
constexpr double kNetwork = 0.20;
// Launches take 4 to 20 us around 10 (superbench, Nsight), loaders as much more or less.
constexpr double kHost = 0.45;

constexpr int kClasses = static_cast<int>(std::size(kKernels));
constexpr int kFactors = kClasses + 3;  // and network, host, what the caller adds

// How a step's time follows its factors: kernels and host work by their parts of the critical path,
// the network by steps simulated with slower and with faster communication, because hidden
// communication comes to light.
struct Response {
  double usual = 0;
  std::array<double, kClasses> kernels{};
  double host = 0, slower = 0, faster = 0;  // gained and lost by kNetwork
};

// Part of each class in the kernels of a program; the optimizer's own are counted apart.
std::array<double, kClasses> shares(const Job& job, const Program& program) {
  const KernelTimer timer(job.cluster.gpu, job.software);
  std::vector<double> each;
  for (const KernelSpec& kernel : program.kernels) each.push_back(to_seconds(timer.time(kernel)));
  std::array<double, kClasses> out{};
  double sum = 0;
  for (const Instr& instr : program.code) {
    if (instr.op != Op::kernel) continue;
    const auto cost = static_cast<int>(kernel_info(program.kernels[instr.what].kind).cost);
    if (cost == static_cast<int>(CostClass::optimizer)) continue;
    out.at(cost) += each[instr.what], sum += each[instr.what];
  }
  for (double& part : out) part /= std::max(sum, 1e-12);
  return out;
}

Response response(const PlannedJob& planned, const SimulationResult& result, const Job& job) {
  const auto spent = [&](Cause cause) {
    return to_seconds(result.breakdown[static_cast<std::size_t>(cause)]);
  };
  Response out{.usual = to_seconds(result.iteration)};
  out.kernels = shares(job, *planned.programs.by_stage.at(result.bounding_stage));
  const double paced = spent(Cause::compute) + spent(Cause::bubble) + spent(Cause::straggler);
  for (double& part : out.kernels) part *= paced;
  out.kernels.back() += spent(Cause::optimizer);
  out.host = spent(Cause::other) + spent(Cause::data_stall);
  const auto with = [&](double factor) {
    SimulationOptions options;
    options.scale.tensor_comm = options.scale.pipeline_comm = options.scale.data_comm = factor;
    return to_seconds(simulate(job, planned.programs, options).iteration);
  };
  const double plain = with(1);
  out.slower = (with(std::exp(kNetwork)) / plain - 1) * out.usual;
  out.faster = (1 - with(std::exp(-kNetwork)) / plain) * out.usual;
  return out;
}

double drawn(const Response& r, const std::array<double, kFactors>& normals, double other) {
  double out = r.usual;
  for (int i = 0; i < kClasses; ++i) out += r.kernels[i] * (std::exp(kKernels[i] * normals[i]) - 1);
  const double network = normals[kClasses];  // in units of kNetwork
  out += network * (network > 0 ? r.slower : r.faster);
  out += r.host * (std::exp(kHost * normals[kClasses + 1]) - 1);
  return std::max(out, 0.1 * r.usual) * std::exp(other * normals[kClasses + 2]);
}

}  // namespace

Interval step_interval(const PlannedJob& planned, const SimulationResult& result, int draws,
                       double other) {
  const double usual = to_seconds(result.iteration);
  if (!planned.job.cluster.gpu.measured_kernels.empty() || draws < 10) return {usual, usual};
  Job job = planned.job;
  job.faults.clear();
  if (job.network.model != "ideal") job.network.model = "analytic";
  const Response r = response(planned, result, job);
  const PhiloxKey key = random_key(job.seed, "interval");
  std::vector<double> times;
  for (int draw = 0; draw < draws; ++draw) {
    std::array<double, kFactors> normals{};
    for (int i = 0; i < kFactors; ++i) normals[i] = random_normal(key, draw * kFactors + i);
    times.push_back(drawn(r, normals, other));
  }
  std::ranges::sort(times);
  const auto last = static_cast<double>(draws - 1);
  return {times[std::lround(0.1 * last)], times[std::lround(0.9 * last)]};
}

}  // namespace trainyard
