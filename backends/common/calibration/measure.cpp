#include "backends/common/calibration/measure.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/common/calibration/device_times.h"
#include "backends/common/calibration/trial_jobs.h"

namespace trainyard {
namespace {

// A machine's speed changes within seconds, so every shape is measured at several moments.
constexpr int kPasses = 3;

class Measurement {
 public:
  explicit Measurement(const MeasureOptions& options) : options_(options) {}

  Samples run() {
    Samples samples;
    if (options_.on_devices) return on_devices();
    for (const std::int32_t threads : thread_counts(options_.cores)) {
      const std::int32_t ranks = options_.cores / threads;
      alone_with(ranks, [&](Store*) {
        const auto place = static_cast<std::int32_t>(index(options_.place.rank));
        const Processors own = own_processors(allowed_processors(), place, ranks, threads);
        for (int pass = 0; pass < kPasses; ++pass)
          for (const Job& job : trial_jobs(options_.precision, threads))
            time_kernels(job, own, options_.make_backend, samples.kernels);
      });
    }
    for (const std::int32_t ranks : options_.rank_counts)
      alone_with(ranks, [&](Store* store) {
        const auto calls = time_calls({options_.place.rank, ranks, store}, options_.make_backend);
        samples.calls.insert(samples.calls.end(), calls.begin(), calls.end());
      });
    return samples;
  }

 private:
  Samples on_devices() {
    Samples samples;
    const MakeBackend make = [this](const Job& job, RealBackendOptions options) {
      options.place = options_.device;
      return options_.make_backend(job, options);
    };
    alone_with(options_.place.ranks,
               [&](Store*) { time_device(options_.precision, options_.limit, make, samples); });
    for (const std::int32_t ranks : options_.rank_counts)
      alone_with(ranks, [&](Store* store) {
        for (CallSample call : time_calls({options_.place.rank, ranks, store, true}, make)) {
          call.work_us = 0;  // processors only issue it
          samples.calls.push_back(call);
        }
      });
    return samples;
  }

  // Does `work` on the first `ranks` ranks while the others wait.
  template <class Work>
  void alone_with(std::int32_t ranks, Work work) {
    const std::string name = fmt::format("trial{}/", trials_++);
    if (options_.place.ranks == 1) return work(nullptr);
    PartOfStore store(*options_.place.store, name);
    meet(store, "begin");
    if (index(options_.place.rank) < ranks) work(&store);
    meet(store, "end");
  }

  void meet(Store& store, const char* where) {
    std::vector<std::string> keys;
    for (std::int32_t r = 0; r < options_.place.ranks; ++r)
      keys.push_back(fmt::format("{}/{}", where, r));
    store.set(keys[static_cast<std::size_t>(index(options_.place.rank))], "");
    constexpr std::chrono::minutes kPatience{10};
    wait_for(store, keys, kPatience);
  }

  const MeasureOptions& options_;
  int trials_ = 0;
};

}  // namespace

std::vector<std::int32_t> thread_counts(std::int32_t cores) {
  std::vector<std::int32_t> out;
  for (std::int32_t ranks = 1; ranks <= cores; ++ranks)
    if (out.empty() || out.back() != cores / ranks) out.push_back(cores / ranks);
  std::ranges::reverse(out);
  return out;
}

std::int32_t processes_for(std::int32_t cores, const std::vector<std::int32_t>& rank_counts) {
  return rank_counts.empty() ? cores : std::max(cores, std::ranges::max(rank_counts));
}

Samples measure(const MeasureOptions& options) { return Measurement(options).run(); }

}  // namespace trainyard
