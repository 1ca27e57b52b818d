#include "tests/cuda_on_host/signal.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace trainyard::cuda_on_host {

// std::atomic's own wait() counts the waiting in a place that orders them with who wakes them.
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

void Signal::raise(std::uint32_t to) {
  count_.store(to, std::memory_order_release);
  syscall(SYS_futex, &count_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

bool Signal::reached(std::uint32_t to) const {
  return count() >= to && count_.load(std::memory_order_acquire) >= to;
}

void Signal::await(std::uint32_t to) const {
  for (std::uint32_t seen = count(); seen < to; seen = count())
    syscall(SYS_futex, &count_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
  reached(to);
}

}  // namespace trainyard::cuda_on_host
