#include "backends/common/calibration/device_times.h"

#include <algorithm>

#include "backends/common/calibration/probe_programs.h"
#include "backends/common/calibration/trial_jobs.h"
#include "core/error.h"
#include "core/plan/plan.h"

namespace trainyard {
namespace {

// As many tokens as a batch asks for, all alike.
class SameTokens final : public BatchFeed {
 public:
  explicit SameTokens(Bytes bytes)
      : tokens_(static_cast<std::size_t>(bytes.value / size_of(DType::int32))) {}
  std::span<const std::int32_t> batch(std::int64_t) override { return tokens_; }

 private:
  std::vector<std::int32_t> tokens_;
};

double flops_of(const Program& program) {
  double flops = 0;
  for (const Instr& instr : program.code)
    if (instr.op == Op::kernel) flops += program.kernels[instr.what].flops;
  return flops;
}

// Runs the probe a few times, the first ones uncounted; the last one's report.
StepReport run_probe(const Job& job, const Program& program, BatchFeed* feed,
                     const MakeBackend& make) {
  constexpr int kRuns = 4;
  RealBackendOptions options;
  options.memory = program.arena_bytes;
  const std::unique_ptr<RealBackend> backend = make(job, options);
  backend->connect(job.mesh());
  StepReport report;
  for (int run = 0; run < kRuns; ++run) {
    StepInputs inputs;
    inputs.step = run;
    inputs.feed = feed;
    inputs.traced = feed != nullptr;
    backend->submit(RankId(0), program, inputs);
    report = backend->wait(kNever);
    check(report.outcome == Outcome::done, "{}", report.message);
  }
  return report;
}

double launch_us(bool in_graph, const MakeBackend& make) {
  constexpr std::int32_t kKernels =
      4000;  // many times longer than the wait for their end is inexact
  Job job = probe_job();
  job.running.cuda_graphs = in_graph;
  return to_microseconds(
             run_probe(job, kernel_probe(kKernels, Tick::short_one), nullptr, make).elapsed) /
         kKernels;
}

double copy_gbs(const MakeBackend& make) {
  constexpr Bytes kCopied{16 << 20};
  const Program program = copy_probe(kCopied, 3);
  SameTokens tokens(kCopied);
  double fastest = 0;
  for (const TraceEvent& event : run_probe(probe_job(), program, &tokens, make).trace)
    if (program.code[event.instr].op == Op::copy)
      fastest = std::max(fastest, static_cast<double>(kCopied.value) /
                                      static_cast<double>((event.end - event.start).value));
  return fastest;
}

}  // namespace

void time_device(Precision precision, std::chrono::seconds limit, const MakeBackend& make,
                 Samples& samples) {
  samples.device = {launch_us(false, make), launch_us(true, make), copy_gbs(make)};
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  std::chrono::duration<double> previous{};
  double previous_flops = 0;
  for (const Job& job : device_trial_jobs(precision)) {
    const double flops = flops_of(*plan(job).by_stage.at(0));
    // The next one may take as much longer as it has more to do.
    const auto began = Clock::now();
    const double growth = previous_flops > 0 ? std::max(1.0, flops / previous_flops) : 0;
    if (began - start + previous * growth > limit) break;
    time_kernels(job, {}, make, samples.kernels, KernelSpan::own);
    previous = Clock::now() - began;
    previous_flops = flops;
  }
}

}  // namespace trainyard
