#include "backends/common/calibration/calibration.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <thread>

#include "core/error.h"

namespace trainyard {
namespace {

// Kernels far shorter than this (us) make no difference to a step.
constexpr double kNoticeable = 5;

struct Split {
  std::vector<Observation> fitted, held_out;
};

// Every fourth one, in order of size, where that leaves enough for a fit.
Split split(std::vector<Observation> all) {
  constexpr std::size_t kEnough = 8, kEvery = 4;
  std::ranges::sort(all, {}, &Observation::value);
  Split out;
  for (std::size_t i = 0; i < all.size(); ++i)
    (all.size() >= kEnough && i % kEvery == 2 ? out.held_out : out.fitted).push_back(all[i]);
  return out;
}

// Bytes that each rank receives; as CollectiveTimer counts them.
double received(const CallSample& s) {
  if (s.op == Op::send) return s.bytes;
  const double others = s.bytes * (s.ranks - 1) / s.ranks;
  return s.op == Op::all_reduce ? 2 * others : others;
}

std::array<double, kTerms> terms(const CallSample& s) {
  return {1, s.op == Op::send ? 0.0 : s.ranks - 1.0, received(s)};
}

// How much longer work takes when all ranks are at it.
double crowding(const CallSample& s, std::int32_t cores) {
  return std::max(1.0, static_cast<double>(s.ranks) / cores);
}

KernelFit fit_kernel(const std::string& name, std::int32_t threads, const Samples& samples) {
  std::vector<Observation> all;
  for (const KernelSample& s : samples.kernels)
    if (s.name == name && s.threads == threads) all.push_back({{1, s.flops, s.bytes}, s.us});
  const Split parts = split(std::move(all));
  KernelFit fit{name, threads, fit_relative(parts.fitted, kNoticeable), {}, {}};
  fit.fitted = error_of(fit.cost, parts.fitted);
  fit.held_out = error_of(fit.cost, parts.held_out);
  return fit;
}

// Work is what the system says that the processes used. What a call takes beyond the work of those
// who share a core is the wait.
CallFit fit_call(Op op, const Samples& samples, std::int32_t cores) {
  CallFit fit;
  fit.op = op;
  std::vector<Observation> work, wait;
  std::vector<CallSample> used, unused;
  std::size_t n = 0;
  for (const CallSample& s : samples.calls) {
    if (s.op != op) continue;
    const bool held_out = n++ % 4 == 2;
    (held_out ? unused : used).push_back(s);
    if (!held_out && s.work_us > 0) work.push_back({terms(s), s.work_us});
  }
  fit.work = fit_relative(work);
  for (const CallSample& s : used) {
    const double rest = s.us - evaluate(fit.work, terms(s)) * crowding(s, cores);
    if (rest > 0) wait.push_back({terms(s), rest});
  }
  fit.wait = fit_relative(wait);
  const auto error = [&](const std::vector<CallSample>& all) {
    FitError out;
    for (const CallSample& s : all) {
      const double predicted =
          evaluate(fit.work, terms(s)) * crowding(s, cores) + evaluate(fit.wait, terms(s));
      const double off = std::abs(predicted / s.us - 1);
      out.mean += off / static_cast<double>(all.size());
      out.largest = std::max(out.largest, off);
      ++out.count;
    }
    return out;
  };
  fit.fitted = error(used);
  fit.held_out = error(unused);
  return fit;
}

}  // namespace

Machine this_machine() {
  Machine out;
  out.cores = static_cast<std::int32_t>(std::max(1U, std::thread::hardware_concurrency()));
  struct sysinfo info {};
  if (::sysinfo(&info) == 0)
    out.memory = {static_cast<std::int64_t>(info.totalram) * info.mem_unit};
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; out.processor.empty() && std::getline(file, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos)
      out.processor = line.substr(line.find(": ") + 2);
  if (out.processor.empty()) out.processor = "processor";
  return out;
}

Calibration calibrate(const Samples& samples, const Machine& machine) {
  Calibration out;
  out.machine = machine;
  out.device = samples.device;
  const std::int32_t sharers = machine.devices > 0 ? 1 : machine.cores;
  std::set<std::int32_t> threads, ranks;
  std::set<std::pair<std::string, std::int32_t>> kinds;
  for (const KernelSample& s : samples.kernels) {
    threads.insert(s.threads);
    kinds.insert({s.name, s.threads});
    if (s.name.starts_with("gemm_"))
      out.peak_flops = std::max(out.peak_flops, s.flops / s.us * 1e6 / s.threads);
    if (s.flops == 0)
      out.peak_bytes = std::max(out.peak_bytes, s.bytes / s.us * 1e6 * sharers / s.threads);
  }
  for (const auto& [name, count] : kinds) out.kernels.push_back(fit_kernel(name, count, samples));
  for (const CallSample& s : samples.calls) ranks.insert(s.ranks);
  out.threads.assign(threads.begin(), threads.end());
  out.ranks.assign(ranks.begin(), ranks.end());
  for (const Op op : {Op::all_reduce, Op::all_gather, Op::reduce_scatter, Op::broadcast, Op::send})
    if (std::ranges::count(samples.calls, op, &CallSample::op) > 0)
      out.calls.push_back(fit_call(op, samples, machine.cores));
  return out;
}

}  // namespace trainyard
