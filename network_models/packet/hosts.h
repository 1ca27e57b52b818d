#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "core/types.h"
#include "network_models/congestion/rate_control.h"
#include "network_models/packet/ports.h"

namespace trainyard {

// What senders do about silence, as the job's network says.
struct Retransmission {
  Time timer;                // until a sender tries again
  std::int32_t retries = 0;  // so often; then it gives up
  double window = 0;         // bytes that may be without an answer
};

// The cards' ends of queue pairs. A sender paces packets at the rate its congestion control allows,
// in turns with the others of its card; a receiver takes packets in order, answers marks with
// notifications and gaps with one negative acknowledgement, whereupon the sender goes back to the
// missing packet (go-back-N), as it does when it has heard nothing for a time-out. What receivers
// send takes the path's time back and no bandwidth: it travels in a class of its own.
class Hosts : public PacketHosts {
 public:
  struct Sending {
    std::int32_t path = 0;
    double bytes = 0;
  };

  // The ports must outlive the hosts.
  Hosts(const ControlParameters& control, double packet_bytes, const Retransmission& retransmission,
        Ports& ports);

  // A new queue pair with so much to send. Its number is never used again.
  std::int32_t open(const Sending& sending, std::int64_t now);
  void close(std::int32_t queue_pair);
  // Goes back to what was not acknowledged, over another path.
  void reroute(std::int32_t queue_pair, std::int32_t path, std::int64_t now);
  void handle(const PacketEvent& event);

  // Queue pairs whose last byte has arrived since the last call.
  std::vector<std::int32_t> take_finished() { return std::exchange(finished_, {}); }
  bool finished() const { return !finished_.empty(); }
  // The first queue pair whose sender has given up; -1 if none has.
  std::int32_t given_up() const { return given_up_; }

  std::int32_t path(std::int32_t queue_pair) const { return pairs_[queue_pair].path; }
  const RateControl& control(std::int32_t queue_pair) const { return pairs_[queue_pair].control; }
  // Bytes that have arrived in order.
  double received(std::int32_t queue_pair) const;
  std::int64_t sent_again() const { return sent_again_; }

  bool next_packet(std::int32_t link, std::int64_t now, Packet& packet) override;
  void receive(const Packet& packet, std::int64_t now) override;
  double mark_probability(double queue_bytes) const override;

 private:
  struct QueuePairState {
    RateControl control;
    std::int32_t path = 0, source = 0;  // source: its first link
    std::int32_t packets = 0, last_bytes = 0;
    std::int32_t next = 0, acknowledged = 0;  // sender
    std::int64_t allowed = 0, heard = 0, empty_time = 0;
    int retries = 0;
    bool in_turn = false, open = true;
    bool timer = false, rise_due = false;                       // one event of each is on its way
    std::int32_t expected = 0, reported = 0;                    // receiver
    std::int64_t slots_since = 0, notified = -1, queueing = 0;  // notified: a slot
    bool gap_reported = false;
  };
  struct Source {
    std::vector<std::int32_t> waiting;  // queue pairs with packets to send
    std::size_t turn = 0;
    std::int64_t wake = -1;
  };

  void join(std::int32_t queue_pair, std::int64_t now);
  void pace(std::int32_t queue_pair, double rate_before, std::int64_t now);
  void go_back(std::int32_t queue_pair, std::int32_t to, std::int64_t now);
  void acknowledged(std::int32_t queue_pair, std::int32_t value, std::int64_t now);
  void timed_out(std::int32_t queue_pair, std::int64_t now);
  void set_timer(std::int32_t queue_pair);
  void set_rise(std::int32_t queue_pair);
  void answer(std::int32_t queue_pair, std::int32_t value, std::int64_t now);

  ControlParameters control_;
  double packet_bytes_;
  std::int64_t timeout_;
  std::int32_t retries_, window_, per_acknowledgement_;  // the latter two in packets
  Ports& ports_;
  std::vector<QueuePairState> pairs_;
  std::vector<Source> sources_;
  std::vector<std::int32_t> finished_;
  std::int64_t sent_again_ = 0;
  std::int32_t given_up_ = -1;
};

}  // namespace trainyard
