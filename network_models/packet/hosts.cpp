#include "network_models/packet/hosts.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace trainyard {
namespace {

// Packets that one acknowledgement answers: the authors' simulator sends one for 256 bytes to
// 16 KB; HPCC's one a packet. It only delays what loss and round trip times tell.
constexpr std::int32_t kPerAcknowledgement = 16;

// Points of [0, 1) that keep apart from each other (multiples of the golden ratio).
double golden_part(std::int32_t number) { return std::fmod(0.6180339887498949 * number, 1.0); }

Time time_of(std::int64_t ps) { return nanoseconds(ps / kPsPerNs); }

}  // namespace

Hosts::Hosts(const ControlParameters& control, double packet_bytes,
             const Retransmission& retransmission, Ports& ports)
    : control_(control),
      packet_bytes_(packet_bytes),
      timeout_(retransmission.timer.value * kPsPerNs),
      retries_(retransmission.retries),
      window_(
          static_cast<std::int32_t>(std::clamp(retransmission.window / packet_bytes, 1.0, 1e9))),
      // A sender whose window is full must hear of it.
      per_acknowledgement_(std::clamp(window_ / 2, 1, kPerAcknowledgement)),
      ports_(ports) {}

double Hosts::mark_probability(double queue_bytes) const {
  return control_.marks() ? control_.dcqcn.mark_probability(queue_bytes) : 0;
}

double Hosts::received(std::int32_t queue_pair) const {
  const QueuePairState& pair = pairs_[queue_pair];
  const double whole = std::min(pair.expected, pair.packets - 1) * packet_bytes_;
  return whole + (pair.expected == pair.packets ? pair.last_bytes : 0);
}

std::int32_t Hosts::open(const Sending& sending, std::int64_t now) {
  const auto id = static_cast<std::int32_t>(pairs_.size());
  const Bandwidth line{ports_.narrowest_host_link(sending.path)};
  // Clocks of cards are not in step: the slots of each queue pair begin at a time of their own.
  const auto slot = microseconds(control_.dcqcn.cut_interval_us).value * kPsPerNs;
  const std::int64_t since = now - std::llround(golden_part(id) * static_cast<double>(slot));
  QueuePairState& pair =
      pairs_.emplace_back(QueuePairState{RateControl(control_, line, time_of(since))});
  pair.path = sending.path;
  pair.packets = static_cast<std::int32_t>(std::ceil(sending.bytes / packet_bytes_));
  pair.last_bytes = static_cast<std::int32_t>(sending.bytes - (pair.packets - 1.0) * packet_bytes_);
  pair.empty_time = ports_.path_time(pair.path, packet_bytes_);
  pair.heard = now;
  pair.slots_since = since;
  join(id, now);
  return id;
}

void Hosts::close(std::int32_t queue_pair) {
  QueuePairState& pair = pairs_[queue_pair];
  pair.open = false;
  if (!pair.in_turn) return;
  std::erase(sources_[pair.source].waiting, queue_pair);
  pair.in_turn = false;
}

// Its card's next packet may be one of this queue pair.
void Hosts::join(std::int32_t queue_pair, std::int64_t now) {
  QueuePairState& pair = pairs_[queue_pair];
  pair.source = ports_.path(pair.path).front();
  sources_.resize(std::max<std::size_t>(sources_.size(), pair.source + 1));
  if (!std::exchange(pair.in_turn, true)) sources_[pair.source].waiting.push_back(queue_pair);
  ports_.start(pair.source, now, *this);
}

void Hosts::reroute(std::int32_t queue_pair, std::int32_t path, std::int64_t now) {
  QueuePairState& pair = pairs_[queue_pair];
  if (pair.in_turn) std::erase(sources_[pair.source].waiting, queue_pair);
  pair.in_turn = false;
  pair.path = path;
  pair.empty_time = ports_.path_time(path, packet_bytes_);
  go_back(queue_pair, pair.acknowledged, now);
}

bool Hosts::next_packet(std::int32_t link, std::int64_t now, Packet& packet) {
  if (static_cast<std::size_t>(link) >= sources_.size()) return false;
  Source& source = sources_[link];
  const std::size_t count = source.waiting.size();
  std::int64_t earliest = INT64_MAX;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = (source.turn + i) % count;
    const std::int32_t id = source.waiting[at];
    QueuePairState& pair = pairs_[id];
    if (pair.next - pair.acknowledged >= window_) continue;  // an answer will wake it
    if (pair.allowed > now) {
      earliest = std::min(earliest, pair.allowed);
      continue;
    }
    const bool last = pair.next + 1 == pair.packets;
    const auto bytes = last ? pair.last_bytes : static_cast<std::int32_t>(packet_bytes_);
    packet = {now, id, pair.next++, pair.path, bytes};
    pair.control.sent(bytes);
    // A packet that waited for others of the card does not delay those after it.
    const std::int64_t gap = std::llround(bytes * 1e12 / pair.control.rate());
    pair.allowed = std::max(pair.allowed, now - gap) + gap;
    source.turn = at + 1;
    if (last) {
      source.waiting.erase(source.waiting.begin() + static_cast<std::ptrdiff_t>(at));
      source.turn = at;
      pair.in_turn = false;
    }
    if (last || pair.next - pair.acknowledged >= window_) set_timer(id);
    return true;
  }
  if (earliest < INT64_MAX && (source.wake < now || source.wake > earliest)) {
    source.wake = earliest;
    ports_.events().push({earliest, 0, link, 0, std::uint8_t(PacketEventKind::wake)});
  }
  return false;
}

// A rate that has changed counts from now on, not from the next packet on: so does HPCC's simulator
// (rdma-hw.cc, ChangeRate). Flows that are slow, hence have packets far apart, would otherwise hear
// of a queue a packet's gap late.
void Hosts::pace(std::int32_t queue_pair, double rate_before, std::int64_t now) {
  QueuePairState& pair = pairs_[queue_pair];
  const double rate = pair.control.rate();
  if (rate == rate_before || pair.allowed <= now) return;
  pair.allowed = now + std::llround(static_cast<double>(pair.allowed - now) * rate_before / rate);
  ports_.start(pair.source, now, *this);
}

void Hosts::receive(const Packet& packet, std::int64_t now) {
  const std::int32_t id = packet.queue_pair;
  QueuePairState& pair = pairs_[id];
  if (!pair.open || pair.expected == pair.packets) return;
  pair.queueing = std::max<std::int64_t>(0, now - packet.sent - pair.empty_time);
  const std::int64_t slot =
      (now - pair.slots_since) / std::llround(control_.dcqcn.notify_interval_us() * 1e6);
  if (packet.marked && slot > pair.notified) {
    pair.notified = slot;
    ports_.events().push({now + ports_.propagation(pair.path), 0, id, 0,
                          std::uint8_t(PacketEventKind::notification)});
  }
  if (packet.number > pair.expected) {
    if (!std::exchange(pair.gap_reported, true)) answer(id, ~pair.expected, now);
    return;
  }
  if (packet.number == pair.expected) {
    ++pair.expected;
    pair.gap_reported = false;
  }
  const bool done = pair.expected == pair.packets;
  if (done || pair.expected - pair.reported >= per_acknowledgement_ ||
      packet.number < pair.expected - 1)
    answer(id, pair.expected, now);
  if (done) finished_.push_back(id);
}

// A negative value asks for the packet ~value again.
void Hosts::answer(std::int32_t queue_pair, std::int32_t value, std::int64_t now) {
  QueuePairState& pair = pairs_[queue_pair];
  pair.reported = pair.expected;
  ports_.events().push({now + ports_.propagation(pair.path), 0, queue_pair, value,
                        std::uint8_t(PacketEventKind::acknowledgement)});
}

void Hosts::go_back(std::int32_t queue_pair, std::int32_t to, std::int64_t now) {
  QueuePairState& pair = pairs_[queue_pair];
  sent_again_ += std::max(0, pair.next - to);
  pair.next = std::min(pair.next, to);
  if (pair.next < pair.packets) join(queue_pair, now);
}

void Hosts::acknowledged(std::int32_t queue_pair, std::int32_t value, std::int64_t now) {
  QueuePairState& pair = pairs_[queue_pair];
  const std::int32_t expected = value < 0 ? ~value : value;
  pair.heard = now;
  pair.retries = 0;
  const std::int32_t news = std::max(0, expected - pair.acknowledged);
  pair.acknowledged = std::max(pair.acknowledged, expected);
  const double round_trip =
      static_cast<double>(pair.empty_time + ports_.propagation(pair.path) + pair.queueing) * 1e-6;
  const double rate = pair.control.rate();
  pair.control.sample(
      {time_of(now), static_cast<double>(pair.queueing) * 1e-6, round_trip, news * packet_bytes_});
  pace(queue_pair, rate, now);
  if (news > 0 && pair.in_turn) ports_.start(pair.source, now, *this);
  if (value < 0) go_back(queue_pair, expected, now);
}

void Hosts::set_timer(std::int32_t queue_pair) {
  QueuePairState& pair = pairs_[queue_pair];
  if (std::exchange(pair.timer, true)) return;
  ports_.events().push(
      {pair.heard + timeout_, 0, queue_pair, 0, std::uint8_t(PacketEventKind::timeout)});
}

void Hosts::timed_out(std::int32_t queue_pair, std::int64_t now) {
  QueuePairState& pair = pairs_[queue_pair];
  pair.timer = false;
  if (now >= pair.heard + timeout_) {
    if (++pair.retries > retries_) {
      if (given_up_ < 0) given_up_ = queue_pair;
      return;
    }
    pair.heard = now;
    go_back(queue_pair, pair.acknowledged, now);
  }
  set_timer(queue_pair);
}

void Hosts::set_rise(std::int32_t queue_pair) {
  QueuePairState& pair = pairs_[queue_pair];
  const Time at = pair.control.next_rise();
  if (at == kNever || std::exchange(pair.rise_due, true)) return;
  ports_.events().push(
      {at.value * kPsPerNs, 0, queue_pair, 0, std::uint8_t(PacketEventKind::rise)});
}

void Hosts::handle(const PacketEvent& event) {
  const auto kind = static_cast<PacketEventKind>(event.kind);
  if (kind == PacketEventKind::wake) {
    Source& source = sources_[event.subject];
    if (source.wake == event.at) source.wake = -1;
    return ports_.start(event.subject, event.at, *this);
  }
  QueuePairState& pair = pairs_[event.subject];
  if (!pair.open) return;
  const double rate = pair.control.rate();
  switch (kind) {
    case PacketEventKind::notification:
      pair.control.notify(time_of(event.at));
      set_rise(event.subject);
      return pace(event.subject, rate, event.at);
    case PacketEventKind::acknowledgement:
      return acknowledged(event.subject, event.value, event.at);
    case PacketEventKind::timeout:
      return timed_out(event.subject, event.at);
    case PacketEventKind::rise:
      pair.rise_due = false;
      // Unless a cut has put the timer back, or the rate is the line's again.
      if (pair.control.next_rise() == time_of(event.at)) pair.control.rise();
      set_rise(event.subject);
      return pace(event.subject, rate, event.at);
    default:
      check(false, "event {} is not the hosts'", event.kind);
  }
}

}  // namespace trainyard
