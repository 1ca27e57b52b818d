#pragma once
#include <atomic>
#include <cstdint>

namespace trainyard::cuda_on_host {

// A count that one thread raises and others wait for. Those who wait see what was done before it
// was raised, and nothing else is ordered: with a lock, who raises it would be ordered after those
// who asked for it before, and the thread sanitizer would miss races of streams that no event
// orders.
class Signal {
 public:
  void raise(std::uint32_t to);
  bool reached(std::uint32_t count) const;
  void await(std::uint32_t count) const;
  std::uint32_t count() const { return count_.load(std::memory_order_relaxed); }  // orders nothing

 private:
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace trainyard::cuda_on_host
