#include "tests/cuda_on_host/order_log.h"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <utility>

#include "tests/cuda_on_host/runtime.h"

namespace trainyard::cuda_on_host {
namespace {

thread_local std::vector<std::string> open_ranges;

}  // namespace

void merge(Known& into, const Known& other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (std::size_t s = 0; s < other.size(); ++s) into[s] = std::max(into[s], other[s]);
}

void note_work(CUstream_st& stream) {
  const auto own = static_cast<std::size_t>(stream.number + 1);
  Known before = stream.known;
  if (stream.known.size() <= own) stream.known.resize(own + 1);
  const std::size_t place = ++stream.known[own];
  Device& d = device(stream.device);
  const std::lock_guard lock(d.mutex);
  if (d.logs)
    d.log.push_back({open_ranges.empty() ? "" : open_ranges.back(), own, place, std::move(before)});
}

bool ordered(const LoggedWork& earlier, const LoggedWork& later) {
  return earlier.stream < later.known.size() && later.known[earlier.stream] >= earlier.place;
}

void log_order(int number) {
  Device& d = device(number);
  const std::lock_guard lock(d.mutex);
  d.logs = true;
  d.log.clear();
}

std::vector<LoggedWork> logged_order(int number) {
  Device& d = device(number);
  const std::lock_guard lock(d.mutex);
  d.logs = false;
  return std::exchange(d.log, {});
}

}  // namespace trainyard::cuda_on_host

int nvtxRangePushA(const char* name) {
  trainyard::cuda_on_host::open_ranges.emplace_back(name);
  return static_cast<int>(trainyard::cuda_on_host::open_ranges.size()) - 1;
}

int nvtxRangePop() {
  trainyard::cuda_on_host::open_ranges.pop_back();
  return static_cast<int>(trainyard::cuda_on_host::open_ranges.size());
}
