#include "backends/common/calibration/kernel_times.h"

#include <algorithm>

#include "backends/common/rank_state.h"
#include "core/error.h"
#include "core/plan/plan.h"
#include "core/random.h"

namespace trainyard {
namespace {

constexpr int kWarmUp = 2, kSteps = 8;

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

// Adds the time of each kernel to the list of its KernelSpec.
void collect(const Program& program, const StepReport& report, KernelSpan span,
             std::vector<std::vector<double>>& times) {
  Time previous = kNever;
  for (const TraceEvent& event : report.trace) {  // by instruction: all kernels are on one stream
    const Instr& instr = program.code[event.instr];
    if (instr.stream != Stream::compute) continue;
    const bool from_start = span == KernelSpan::own || instr.waits[0] != kNone ||
                            instr.waits[1] != kNone || previous == kNever;
    if (instr.op == Op::kernel)
      times[instr.what].push_back(
          to_microseconds(event.end - (from_start ? event.start : previous)));
    previous = event.end;
  }
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
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
  std::vector<std::vector<double>> times(program.kernels.size());
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
    if (step >= kWarmUp) collect(program, report, span, times);
  }
  for (std::size_t i = 0; i < program.kernels.size(); ++i) {
    if (times[i].empty()) continue;
    const KernelSpec& spec = program.kernels[i];
    samples.push_back({cost_name(spec), job.running.threads, spec.flops,
                       static_cast<double>(spec.read.value + spec.written.value),
                       median(times[i])});
  }
}

}  // namespace trainyard
