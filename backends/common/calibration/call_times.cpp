#include "backends/common/calibration/call_times.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <deque>

#include "backends/common/calibration/probe_programs.h"
#include "backends/common/peer_error.h"
#include "core/error.h"

namespace trainyard {
namespace {

constexpr std::array<std::int64_t, 7> kBytes{64,       1 << 10,   6 << 10,   24 << 10,
                                             96 << 10, 384 << 10, 1536 << 10};
constexpr int kRuns = 7, kRunsOnDevices = 3;
constexpr double kLongUs = 5e3;

Bytes largest(const TrialRank& place) { return {place.on_devices ? 64 << 20 : 4 << 20}; }

std::vector<std::int64_t> sizes_for(const TrialRank& place) {
  std::vector<std::int64_t> sizes(kBytes.begin(), kBytes.end());
  for (std::int64_t size = 4 << 20; size <= largest(place).value; size *= 4) sizes.push_back(size);
  return sizes;
}

// User and system time of this process.
double processor_us() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec);
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

std::int32_t repeats_of(std::int64_t bytes, const TrialRank& place) {
  return bytes <= (64 << 10) && !place.on_devices ? 40 : 10;
}

// The mean time of the program's calls of this kind, by the device's own clock. Of messages those
// that send count: who receives is there early.
double mean_us(const Program& program, const std::vector<TraceEvent>& trace, Op op) {
  double sum = 0;
  int count = 0;
  for (const TraceEvent& event : trace) {
    if (program.code[event.instr].op != op) continue;
    sum += to_microseconds(event.end - event.start);
    ++count;
  }
  return sum / std::max(1, count);
}

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

  // One of `calls` calls `op` in the program: the middle one of several runs. On devices that is
  // the time of the call alone.
  CallSample time(Program probe, Op op, std::int32_t calls) {
    const Program& program = programs_.emplace_back(std::move(probe));
    std::vector<CallSample> runs;
    StepInputs inputs;
    inputs.traced = place_.on_devices;
    for (int run = 0; run <= (place_.on_devices ? kRunsOnDevices : kRuns); ++run) {
      std::array<double, 1> together{};
      backend_->sum_over_ranks(together);
      const double before = processor_us();
      backend_->submit(place_.rank, program, inputs);
      const StepReport report = backend_->wait(kNever);
      if (report.outcome == Outcome::peer_gone) throw PeerGone(report.message);
      if (report.outcome != Outcome::done) throw std::runtime_error(report.message);
      std::array<double, 2> sums{processor_us() - before,
                                 place_.on_devices ? mean_us(program, report.trace, op) * calls
                                                   : to_microseconds(report.elapsed)};
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
  std::deque<Program> programs_;  // a backend knows those that it has run by their addresses
  std::unique_ptr<RealBackend> backend_;
};

Job job_of_axis(std::int32_t Parallel::*axis, std::int32_t ranks) {
  Job job = probe_job();
  job.parallel.*axis = ranks;
  job.batch = {ranks, 1, 1};
  return job;
}

// For the operands of a call and of the kernel between two calls.
Bytes memory_for(const TrialRank& place) { return {2 * largest(place).value + (4 << 20)}; }

void time_collectives(TrialRank place, const MakeBackend& make, std::vector<CallSample>& samples) {
  PartOfStore store(*place.store, "collectives/");
  place.store = &store;
  Prober prober(job_of_axis(&Parallel::data, place.ranks), place, make, memory_for(place));
  const Tick tick = place.on_devices ? Tick::short_one : Tick::long_one;
  for (const Op op : {Op::all_reduce, Op::all_gather, Op::reduce_scatter, Op::broadcast})
    for (const std::int64_t size : sizes_for(place)) {
      // Whole elements for every member.
      const std::int64_t unit = size_of(DType::fp32) * place.ranks;
      const Bytes bytes{std::max<std::int64_t>(1, size / unit) * unit};
      const std::int32_t repeats = repeats_of(size, place);
      CallSample sample =
          prober.time(collective_probe(op, bytes, place.ranks, repeats, tick), op, repeats);
      CallSample kernels;
      if (!place.on_devices) kernels = prober.time(kernel_probe(repeats, tick), op, repeats);
      constexpr double kLeast = 1;  // us; no message takes less
      sample.us = std::max(kLeast, sample.us - kernels.us);
      sample.work_us = std::max(kLeast, sample.work_us - kernels.work_us);
      sample.op = op;
      sample.ranks = place.ranks;
      sample.bytes = static_cast<double>(bytes.value);
      samples.push_back(sample);
      if (place.on_devices && sample.us > kLongUs) break;
    }
}

void time_messages(TrialRank place, const MakeBackend& make, std::vector<CallSample>& samples) {
  PartOfStore store(*place.store, "messages/");
  place.store = &store;
  Prober prober(job_of_axis(&Parallel::pipeline, place.ranks), place, make, memory_for(place));
  for (const std::int64_t size : sizes_for(place)) {
    const std::int32_t repeats = repeats_of(size, place);
    const auto stage = static_cast<std::int32_t>(index(place.rank));
    CallSample sample = prober.time(message_probe(stage, {size}, repeats), Op::send, 2 * repeats);
    sample.op = Op::send;
    sample.ranks = place.ranks;
    sample.bytes = static_cast<double>(size);
    samples.push_back(sample);
    if (place.on_devices && sample.us > kLongUs) break;
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
