#include "network_models/flow/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainyard {
namespace {

constexpr double kTimerUs = 4.096;  // of timeout 0
// Least timer of adaptive retransmission, doubled from time to time up to the configured one: the
// least base time that firmware takes (NVIDIA, "Adaptive Retransmission: Parameters Control",
// August 2025: 0xFA0 ns).
constexpr Time kLeastTimer = nanoseconds(4000);

}  // namespace

Transport::Transport(const Network& network, std::uint64_t seed)
    : timer_(microseconds(std::ldexp(kTimerUs, network.ib_timeout))),
      first_timer_(network.adaptive_retransmission ? std::min(kLeastTimer, timer_) : timer_),
      retries_(network.ib_retry_count),
      window_(static_cast<double>(network.send_window.value)),
      packet_(static_cast<double>(network.mtu.value)),
      losses_(random_key(seed, "lost packets")) {}

Time Transport::window(double rate) const {
  const double ns = window_ / rate * 1e9;
  return ns < static_cast<double>(kNever.value / 2) ? nanoseconds(std::llround(ns)) : kNever;
}

Time Transport::retry_after(Time span) const {
  const Time last = timer_ * retries_;
  Time at, timer = first_timer_;
  while (at + timer < timer_) {  // while the timer grows
    at += timer;
    if (at >= span) return at <= last ? at : kNever;
    timer = timer + timer;
  }
  const std::int64_t number = (span.value + timer_.value - 1) / timer_.value;
  at = timer_ * std::max<std::int64_t>(1, number);
  return at <= last ? at : kNever;
}

Time Transport::gives_up() const { return timer_ * (retries_ + 1); }

double Transport::goodput(double loss, double rate, Time round_trip) const {
  const double on_the_way = 1 + rate * to_seconds(round_trip) / packet_;
  return (1 - loss) / (1 - loss + loss * on_the_way);
}

Time Transport::wait_for_last(double loss, std::uint64_t number) const {
  Time span;
  for (std::uint32_t attempt = 0;; ++attempt) {
    const auto low = static_cast<std::uint32_t>(number),
               high = static_cast<std::uint32_t>(number >> 32);
    const double drawn = philox(losses_, {low, high, attempt, 0})[0] * 0x1p-32;
    if (drawn >= loss) return span;
    const Time next = retry_after(span + nanoseconds(1));
    if (next == kNever) return kNever;
    span = next;
  }
}

NetworkFailure Transport::error(Time at, const std::string& why) const {
  return {at,
          fmt::format("NCCL error at {:.3f} s: {}; the sender gave up after {} retries, {:.3f} s "
                      "apart (network.ib_timeout, network.ib_retry_count)",
                      to_seconds(at), why, retries_, to_seconds(timer_))};
}

}  // namespace trainyard
