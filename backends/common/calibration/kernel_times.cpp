#include "backends/common/calibration/kernel_times.h"

#include <algorithm>

#include "backends/common/rank_state.h"
#include "core/error.h"
#include "core/plan/plan.h"
#include "core/random.h"

namespace trainyard {
namespace {

constexpr int kWarmUp = 2, kSteps = 12;

// The same random tokens in every step.
class RandomTokens final : public BatchFeed {
 public:
  explicit RandomTokens(const Job& job) {
    const PhiloxKey key = random_key(job.seed, "calibration");
    const std::int64_t tokens = job.batch.global_sequences * (job.batch.sequence_length + 1);
    for (std::int64_t i = 0; i < tokens; ++i)
      tokens_.push_back(static_cast<std::int32_t>(philox(key, static_cast<std::uint64_t>(i))[0] %
                                                  static_cast<std::uint64_t>(job.model.vocab)));
  }
  std::span<const std::int32_t> batch(std::int64_t) override { return tokens_; }

 private:
  std::vector<std::int32_t> tokens_;
};

// Of one step: what it took in all, and each time (us) of each KernelSpec.
struct StepTimes {
  double total = 0;
  std::vector<std::vector<double>> of_kernel;
};

StepTimes times_of(const Program& program, const StepReport& report, KernelSpan span) {
  StepTimes times;
  times.of_kernel.resize(program.kernels.size());
  Time previous = kNever;
  for (const TraceEvent& event : report.trace) {  // by instruction: all kernels are on one stream
    const Instr& instr = program.code[event.instr];
    if (instr.stream != Stream::compute) continue;
    const bool from_start = span == KernelSpan::own || instr.waits[0] != kNone ||
                            instr.waits[1] != kNone || previous == kNever;
    if (instr.op == Op::kernel) {
      const double time = to_microseconds(event.end - (from_start ? event.start : previous));
      times.of_kernel[instr.what].push_back(time);
      times.total += time;
    }
    previous = event.end;
  }
  return times;
}

// The mean time of each KernelSpec, 0 if it never ran, over the half of the steps whose totals are
// in the middle. So the kernels' times add up to a usual step; their medians would not, since each
// kernel is slow now and then.
std::vector<double> usual_times(std::vector<StepTimes> steps) {
  std::ranges::sort(steps, {}, &StepTimes::total);
  const std::size_t kernels = steps.front().of_kernel.size(), fringe = steps.size() / 4;
  std::vector<double> means(kernels);
  for (std::size_t i = 0; i < kernels; ++i) {
    double sum = 0, count = 0;
    for (std::size_t s = fringe; s < steps.size() - fringe; ++s)
      for (const double time : steps[s].of_kernel[i]) {
        sum += time;
        ++count;
      }
    means[i] = count > 0 ? sum / count : 0;
  }
  return means;
}

}  // namespace

void time_kernels(const Job& job, const Processors& processors, const MakeBackend& make,
                  std::vector<KernelSample>& samples, KernelSpan span) {
  const ProgramSet programs = plan(job);
  const Program& program = *programs.by_stage.at(0);
  RealBackendOptions options;
  options.threads = job.running.threads;
  options.processors = processors;
  options.memory = program.arena_bytes;
  const std::unique_ptr<RealBackend> backend = make(job, options);
  RankState state(job, program, {}, backend->memory());
  state.start(InitialWeights(job.model, job.batch.sequence_length, job.seed));
  backend->connect(job.mesh());

  RandomTokens feed(job);
  std::vector<StepTimes> steps;
  for (int step = 0; step < kWarmUp + kSteps; ++step) {
    StepInputs inputs;
    inputs.step = step;
    inputs.feed = &feed;
    inputs.valid_tokens = job.batch.global_sequences * job.batch.sequence_length;
    inputs.update = step + 1;
    inputs.learning_rate = 1e-4;
    inputs.traced = true;
    backend->submit(RankId(0), program, inputs);
    const StepReport report = backend->wait(kNever);
    check(report.outcome == Outcome::done, "{}", report.message);
    if (step >= kWarmUp) steps.push_back(times_of(program, report, span));
  }
  const std::vector<double> times = usual_times(std::move(steps));
  for (std::size_t i = 0; i < program.kernels.size(); ++i) {
    if (times[i] == 0) continue;
    const KernelSpec& spec = program.kernels[i];
    samples.push_back({cost_name(spec), job.running.threads, spec.flops,
                       static_cast<double>(spec.read.value + spec.written.value), times[i]});
  }
}

}  // namespace trainyard
