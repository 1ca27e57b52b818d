#include "backends/common/calibration/call_times.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>

#include "backends/common/calibration/probe_programs.h"
#include "backends/common/peer_error.h"
#include "core/error.h"

namespace trainyard {
namespace {

constexpr std::array<std::int64_t, 8> kBytes{64,       1 << 10,   6 << 10,    24 << 10,
                                             96 << 10, 384 << 10, 1536 << 10, 4 << 20};
constexpr int kRuns = 7;

// User and system time of this process.
double processor_us() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec);
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

std::int32_t repeats_of(std::int64_t bytes) { return bytes <= (64 << 10) ? 40 : 10; }

class Prober {
 public:
  Prober(const Job& job, const TrialRank& place, const MakeBackend& make, Bytes memory)
      : place_(place) {
    RealBackendOptions options;
    options.rank = place.rank;
    options.store = place.store;
    options.memory = memory;
    options.processors = own_processors(
        allowed_processors(), static_cast<std::int32_t>(index(place.rank)), place.ranks, 1);
    backend_ = make(job, options);
    backend_->connect(job.mesh());
  }

  // One of `calls` calls in the program: the middle one of several runs.
  CallSample time(const Program& program, std::int32_t calls) {
    std::vector<CallSample> runs;
    for (int run = 0; run <= kRuns; ++run) {
      std::array<double, 1> together{};
      backend_->sum_over_ranks(together);
      const double before = processor_us();
      backend_->submit(place_.rank, program, {});
      const StepReport report = backend_->wait(kNever);
      if (report.outcome == Outcome::peer_gone) throw PeerGone(report.message);
      if (report.outcome != Outcome::done) throw std::runtime_error(report.message);
      std::array<double, 2> sums{processor_us() - before, to_microseconds(report.elapsed)};
      backend_->sum_over_ranks(sums);
      if (run == 0) continue;  // threads start, connections warm up
      CallSample sample;
      sample.work_us = sums[0] / place_.ranks / calls;
      sample.us = sums[1] / place_.ranks / calls;
      runs.push_back(sample);
    }
    std::ranges::sort(runs, {}, &CallSample::us);
    return runs[runs.size() / 2];
  }

 private:
  const TrialRank& place_;
  std::unique_ptr<RealBackend> backend_;
};

Job job_of_axis(std::int32_t Parallel::*axis, std::int32_t ranks) {
  Job job;
  job.parallel.*axis = ranks;
  job.batch = {ranks, 1, 1};
  job.model.layers = job.model.hidden = job.model.heads = job.model.kv_heads = 1;
  job.model.head_dim = job.model.ffn = job.model.vocab = 1;
  job.training.precision = Precision::fp32;
  return job;
}

// For the operands of a call and of the kernel between two calls.
constexpr Bytes kMemory{2 * kBytes.back() + (4 << 20)};

void time_collectives(TrialRank place, const MakeBackend& make, std::vector<CallSample>& samples) {
  PartOfStore store(*place.store, "collectives/");
  place.store = &store;
  Prober prober(job_of_axis(&Parallel::data, place.ranks), place, make, kMemory);
  for (const Op op : {Op::all_reduce, Op::all_gather, Op::reduce_scatter, Op::broadcast})
    for (const std::int64_t size : kBytes) {
      // Whole elements for every member.
      const std::int64_t unit = size_of(DType::fp32) * place.ranks;
      const Bytes bytes{std::max<std::int64_t>(1, size / unit) * unit};
      const std::int32_t repeats = repeats_of(size);
      CallSample sample = prober.time(collective_probe(op, bytes, place.ranks, repeats), repeats);
      const CallSample kernels = prober.time(kernel_probe(repeats), repeats);
      constexpr double kLeast = 1;  // us; no message takes less
      sample.us = std::max(kLeast, sample.us - kernels.us);
      sample.work_us = std::max(kLeast, sample.work_us - kernels.work_us);
      sample.op = op;
      sample.ranks = place.ranks;
      sample.bytes = static_cast<double>(bytes.value);
      samples.push_back(sample);
    }
}

void time_messages(TrialRank place, const MakeBackend& make, std::vector<CallSample>& samples) {
  PartOfStore store(*place.store, "messages/");
  place.store = &store;
  Prober prober(job_of_axis(&Parallel::pipeline, place.ranks), place, make, kMemory);
  for (const std::int64_t size : kBytes) {
    const std::int32_t repeats = repeats_of(size);
    const auto stage = static_cast<std::int32_t>(index(place.rank));
    CallSample sample = prober.time(message_probe(stage, {size}, repeats), 2 * repeats);
    sample.op = Op::send;
    sample.ranks = place.ranks;
    sample.bytes = static_cast<double>(size);
    samples.push_back(sample);
  }
}

}  // namespace

std::vector<CallSample> time_calls(const TrialRank& place, const MakeBackend& make) {
  std::vector<CallSample> samples;
  time_collectives(place, make, samples);
  if (place.ranks % 2 == 0) time_messages(place, make, samples);
  return samples;
}

}  // namespace trainyard
