#pragma once
#include <cstdint>
#include <string>

#include "core/config/job.h"
#include "core/random.h"
#include "network_models/network_model.h"

namespace trainyard {

// What a reliable RoCE connection does when packets are lost (InfiniBand architecture
// specification, volume 1, section 9.7): the receiver asks for what it misses as soon as a later
// packet arrives, and the sender starts again from there (go back N). If nothing arrives any more,
// the sender's timer runs out, again and again, until it gives up and NCCL fails.
class Transport {
 public:
  Transport(const Network& network, std::uint64_t seed);

  // How long a sender of `rate` bytes per second has something to send without an answer. A path
  // that works again by then needs no timer.
  Time window(double rate) const;
  // From the first lost packet to the first retry at or after `span`; kNever if there is none.
  Time retry_after(Time span) const;
  // From the first lost packet to the error.
  Time gives_up() const;
  // Time between the first and the second retry.
  Time timer() const { return timer_; }
  std::int32_t retries() const { return retries_; }

  // Payload per byte sent where a part `loss` of all packets is lost and a round trip takes
  // `round_trip`: each loss costs what was sent until the receiver's request came back.
  double goodput(double loss, double rate, Time round_trip) const;
  // What the timer adds to message `number`, whose last packets are lost with the chance `loss`:
  // nothing follows them that would tell the receiver. kNever: it gives up.
  Time wait_for_last(double loss, std::uint64_t number) const;
  // What NCCL says when a sender gives up at that time.
  NetworkFailure error(Time at, const std::string& why) const;

 private:
  Time timer_, first_timer_;
  std::int32_t retries_;
  double window_, packet_;  // bytes
  PhiloxKey losses_;
};

}  // namespace trainyard
