#pragma once
#include <cstdint>
#include <vector>

#include "core/types.h"
#include "network_models/congestion/switch_buffers.h"
#include "network_models/fabric/fabric.h"
#include "network_models/fabric/router.h"
#include "network_models/packet/event_queue.h"

namespace trainyard {

struct Packet {
  std::int64_t sent = 0;  // picoseconds
  std::int32_t queue_pair = 0, number = 0, path = 0, bytes = 0;
  std::int32_t next = -1;  // in its queue
  std::int8_t hop = 0;
  bool marked = false;
};

// What every kind of event means; the subject is a link, packet or queue pair.
enum class PacketEventKind : std::uint8_t {
  sent,     // a link is free for its next packet
  arrived,  // a packet is at the far end of its link
  pause,    // a link has to stop (value 1) or may go on (0)
  wake,     // a source may send again
  notification,
  acknowledgement,  // value: the next packet number that is expected
  rise,             // of a rate, by timer
  timeout,
};

// Hosts as the ports see them: where packets come from and go.
class PacketHosts {
 public:
  virtual ~PacketHosts() = default;
  // The packet that a card or GPU puts on its link next; false if none may leave now.
  virtual bool next_packet(std::int32_t link, std::int64_t now, Packet& packet) = 0;
  virtual void receive(const Packet& packet, std::int64_t now) = 0;
  virtual double mark_probability(double queue_bytes) const = 0;
};

// What happened to one link.
struct PortCounters {
  double carried = 0;       // bytes
  std::int64_t pauses = 0;  // times it was told to stop
  std::int64_t paused = 0;  // picoseconds in all
  std::int64_t drops = 0, marks = 0;
};

// Every direction of every cable as the egress port at its lower end, with a queue; switches with
// one buffer each, shared by dynamic thresholds (Choudhury and Hahne, 1998), that pause neighbours
// (PFC) and mark packets when they leave. Packets of a host start at its first link.
class Ports {
 public:
  Ports(const Fabric& fabric, const SwitchBuffers& buffers, double packet_bytes,
        std::uint64_t seed);

  std::int32_t add_path(const Path& path);
  const std::vector<std::int32_t>& path(std::int32_t id) const { return paths_[id]; }
  // Of a packet of that size, queues empty.
  std::int64_t path_time(std::int32_t path, double bytes) const;
  std::int64_t propagation(std::int32_t path) const;
  double narrowest_host_link(std::int32_t path) const;  // bytes per second

  void handle(const PacketEvent& event, PacketHosts& hosts);
  // Sends what the port or its host has, if it is free.
  void start(std::int32_t link, std::int64_t now, PacketHosts& hosts);
  void set_speed(std::int32_t link, double fraction, std::int64_t now, PacketHosts& hosts);

  EventQueue& events() { return events_; }
  // With the packet that is being sent, as its marks are decided.
  double queue_bytes(std::int32_t link) const;
  const PortCounters& counters(std::int32_t link) const { return ports_[link].counters; }
  bool paused(std::int32_t link) const { return ports_[link].paused; }
  bool down(std::int32_t link) const { return ports_[link].down; }
  std::int64_t hops() const { return hops_; }
  std::int64_t drops() const { return drops_; }

 private:
  struct Port {
    double ps_per_byte = 0;  // 0: no limit
    double marks_scale = 1;  // queue as long to a port of marks_rate
    std::int64_t propagation = 0, pause_delay = 0, paused_since = 0;
    std::int64_t queued = 0;  // bytes
    std::int32_t head = -1, tail = -1;
    std::int32_t ends_at = 0;  // switch
    std::int64_t ingress = 0;  // bytes that came over it and are in that switch
    bool busy = false, paused = false, told_to_pause = false, marks = false, down = false;
    PortCounters counters;
  };
  struct Switch {
    std::int64_t used = 0, shared = 0, all = 0;
    bool host = false;
  };

  std::int32_t switch_above(const LinkPlace& place) const;
  std::int64_t threshold(const Switch& at) const;
  void set_delays(std::int32_t link, double packet_bytes);
  void arrive(std::int32_t packet, std::int64_t now, PacketHosts& hosts);
  void leave(std::int32_t link, std::int64_t now, PacketHosts& hosts);
  void release(std::int32_t ingress, std::int64_t bytes, std::int64_t now);
  void drop(std::int32_t packet, std::int32_t link);
  void pause(std::int32_t link, bool stop, std::int64_t now, PacketHosts& hosts);
  double uniform();

  const Fabric& fabric_;
  SwitchBuffers buffers_;
  std::vector<Port> ports_;
  std::vector<Switch> switches_;
  std::vector<std::vector<std::int32_t>> paths_;
  std::vector<Packet> packets_;
  std::vector<std::int32_t> free_, on_link_;  // packet that a link is sending
  EventQueue events_;
  std::uint64_t random_;
  std::int64_t hops_ = 0, drops_ = 0;
};

}  // namespace trainyard
