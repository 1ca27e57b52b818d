// Cost of simulating one training step, per instruction of one GPU, and how it grows with GPUs.
// Every GPU is its own lane unless the name says folded.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "core/plan/plan.h"
#include "simulator/execute.h"

namespace trainyard {
namespace {

// Plausible constant rates, so that the benchmark does not depend on a profile.
class FlatCosts final : public Costs {
 public:
  Time kernel(const KernelSpec& kernel) const override {
    const double bytes = static_cast<double>((kernel.read + kernel.written).value);
    return seconds(3e-6 + kernel.flops / 200e12 + bytes / 1.6e12);
  }
  Time collective(Op, const GroupShape& shape, Bytes bytes) const override {
    return seconds(20e-6 + static_cast<double>(bytes.value) / (shape.ranks > 8 ? 20e9 : 200e9));
  }
  Time transfer(Bytes bytes, const Route& route) const override {
    return seconds(15e-6 +
                   static_cast<double>(bytes.value) / (route.tier == Tier::node ? 200e9 : 20e9));
  }
};

// MegaScale's 175B model (arXiv 2402.15627, table 1) on tensor 8 x pipeline 8 x data `data`.
Job gpt3(std::int32_t data, std::int64_t micro_batches) {
  Job job;
  Model& m = job.model;
  m.layers = 96, m.hidden = 12288, m.heads = m.kv_heads = 128, m.head_dim = 96, m.ffn = 49152;
  m.vocab = 64000;
  m.block = Block::parallel;
  job.parallel.tensor = 8;
  job.parallel.pipeline = 8;
  job.parallel.virtual_stages = 6;
  job.parallel.data = data;
  job.parallel.sequence = true;
  job.parallel.zero = 2;
  job.batch = {micro_batches * data, 1, 2048};
  job.schedule.pipeline = Order::interleaved_1f1b;
  job.schedule.overlap = {true, true, true, true, true};
  job.cluster.nodes = job.gpus() / 8;
  job.cluster.gpu.host_launch_us = 4;
  job.cluster.gpu.collective_sm_slowdown = 1.15;
  return job;
}

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void step(benchmark::State& state, const Job& job, const SimulationOptions& options) {
  const ProgramSet programs = plan(job);
  SimulationResult result;
  for (auto _ : state) result = execute(job, programs, options, FlatCosts());
  state.counters["instructions"] = static_cast<double>(result.instructions);
  state.counters["ns_per_instruction"] = benchmark::Counter(
      static_cast<double>(result.instructions) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["peak_MB"] = peak_megabytes();
}

void every_lane(benchmark::State& state) {
  SimulationOptions options;
  options.fold = false;
  options.threads = static_cast<int>(state.range(1));
  step(state, gpt3(static_cast<std::int32_t>(state.range(0)), 32), options);
}
BENCHMARK(every_lane)
    ->ArgNames({"data", "threads"})
    ->Args({4, 1})
    ->Args({48, 1})
    ->Args({192, 1})
    ->Args({192, 2})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void every_lane_jittered(benchmark::State& state) {
  SimulationOptions options;
  options.fold = false;
  options.threads = 2;
  Job job = gpt3(static_cast<std::int32_t>(state.range(0)), 32);
  Fault fault;
  fault.kind = Fault::Kind::jitter;
  fault.sigma = 0.02;
  job.faults.push_back(fault);
  step(state, job, options);
}
BENCHMARK(every_lane_jittered)
    ->ArgName("data")
    ->Arg(192)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void folded(benchmark::State& state) {
  step(state, gpt3(static_cast<std::int32_t>(state.range(0)), 32), SimulationOptions{});
}
BENCHMARK(folded)->ArgName("data")->Arg(4)->Arg(192)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace trainyard
