#include "network_models/packet/ports.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/random.h"

namespace trainyard {
namespace {

constexpr double kPsPerUs = 1e6;
// A host's own links hold this much before they stop what comes: PCIe and NVLink credits.
constexpr std::int64_t kHostBytes = 64'000;
// Bytes below the threshold at which a paused neighbour may go on (HPCC's simulator,
// switch-mmu.cc, resume_offset).
constexpr std::int64_t kResumeOffset = 3'000;
constexpr double kCableUs = 1;  // host to ToR switch, of the published simulations

std::int64_t ps(double us) { return std::llround(us * kPsPerUs); }

}  // namespace

Ports::Ports(const Fabric& fabric, const SwitchBuffers& buffers, double packet_bytes,
             std::uint64_t seed)
    : fabric_(fabric),
      buffers_(buffers),
      ports_(static_cast<std::size_t>(fabric.links())),
      on_link_(ports_.size(), -1) {
  const PhiloxKey key = random_key(seed, "marks of packets");
  random_ = std::uint64_t{key[0]} << 32 | key[1];
  const std::int32_t aggregations = fabric.pods() * fabric.tor_ports();
  switches_.resize(static_cast<std::size_t>(fabric.nodes() + fabric.tors() + aggregations +
                                            fabric.tor_ports() * fabric.aggregation_ports()));
  for (std::int32_t i = 0; i < fabric.nodes(); ++i) switches_[i].host = true;
  for (Switch& each : switches_) each.all = each.shared = std::llround(buffers.bytes);
  for (std::int32_t link = 0; link < fabric.links(); ++link) set_delays(link, packet_bytes);
  for (const Switch& each : switches_)
    if (!each.host && buffers.pfc && each.shared <= 0)
      throw ConfigError(fmt::format(
          "cluster.fabric.switch_buffer {:.0f} bytes: the headroom of a switch's ports for PFC "
          "alone takes {:.0f}",
          buffers.bytes, static_cast<double>(each.all - each.shared)));
}

// How long light takes, and the buffer that what is still on its way after a pause needs.
void Ports::set_delays(std::int32_t link, double packet_bytes) {
  const LinkPlace place = fabric_.place(LinkId{link});
  Port& port = ports_[link];
  const double rate = fabric_.capacity(place.kind);
  port.ps_per_byte = std::isinf(rate) ? 0 : 1e12 / rate;
  port.marks = place.kind >= LinkKind::nic_in;
  if (buffers_.marks_rate > 0) port.marks_scale = buffers_.marks_rate / rate;
  const double base = to_microseconds(fabric_.latency(1));
  const double hop = to_microseconds(fabric_.latency(3) - fabric_.latency(1)) / 2;
  const double cable = std::min(kCableUs, base / 2);
  if (place.kind == LinkKind::nic_out) port.propagation = ps(cable);
  if (place.kind == LinkKind::nic_in) port.propagation = ps(base - cable);
  if (place.kind >= LinkKind::tor_up) port.propagation = ps(hop);
  port.pause_delay = std::min(port.propagation, ps(kCableUs));
  port.ends_at = switch_above(place);
  Switch& ends = switches_[port.ends_at];
  if (port.ps_per_byte > 0 && buffers_.pfc)
    ends.shared -=
        std::llround(static_cast<double>(port.propagation + port.pause_delay) / port.ps_per_byte +
                     2 * packet_bytes);
}

// The switch, or the node, that a link ends at.
std::int32_t Ports::switch_above(const LinkPlace& at) const {
  const Fabric& f = fabric_;
  const std::int32_t aggregations = f.nodes() + f.tors();
  const std::int32_t cores = aggregations + f.pods() * f.tor_ports();
  switch (at.kind) {
    case LinkKind::nic_out:
      return f.nodes() + f.tor_set(at.owner / f.node().nics) * f.rails() +
             at.owner % f.node().nics % f.rails();
    case LinkKind::nic_in:
      return at.owner / f.node().nics;
    case LinkKind::tor_up:
      return aggregations + f.pod_of_set(at.owner / f.rails()) * f.tor_ports() + at.port;
    case LinkKind::tor_down:
      return f.nodes() + at.owner;
    case LinkKind::core_up:
      return cores + at.owner % f.tor_ports() * f.aggregation_ports() + at.port;
    case LinkKind::core_down:
      return aggregations + at.owner;
    default:
      return at.owner / f.node().gpus;
  }
}

std::int32_t Ports::add_path(const Path& path) {
  std::vector<std::int32_t> links;
  for (const LinkId link : path.span())
    if (ports_[index(link)].ps_per_byte > 0 || ports_[index(link)].down)
      links.push_back(static_cast<std::int32_t>(link));
  const auto known = std::ranges::find(paths_, links);
  if (known != paths_.end()) return static_cast<std::int32_t>(known - paths_.begin());
  paths_.push_back(std::move(links));
  return static_cast<std::int32_t>(paths_.size()) - 1;
}

std::int64_t Ports::propagation(std::int32_t path) const {
  std::int64_t all = 0;
  for (const std::int32_t link : paths_[path]) all += ports_[link].propagation;
  return all;
}

std::int64_t Ports::path_time(std::int32_t path, double bytes) const {
  double all = static_cast<double>(propagation(path));
  for (const std::int32_t link : paths_[path]) all += bytes * ports_[link].ps_per_byte;
  return std::llround(all);
}

double Ports::queue_bytes(std::int32_t link) const {
  const Port& port = ports_[link];
  return static_cast<double>(port.queued + (port.busy ? packets_[on_link_[link]].bytes : 0));
}

double Ports::narrowest_host_link(std::int32_t path) const {
  double rate = 1e18;
  for (const std::int32_t link : paths_[path])
    if (fabric_.place(LinkId{link}).kind <= LinkKind::nic_out)
      rate = std::min(rate, fabric_.capacity(LinkId{link}));
  return rate;
}

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
double Ports::uniform() {
  std::uint64_t z = random_ += 0x9E3779B97F4A7C15ULL;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ z >> 27) * 0x94D049BB133111EBULL;
  return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
}

std::int64_t Ports::threshold(const Switch& at) const {
  if (at.host) return kHostBytes;
  const double free = static_cast<double>(at.shared - at.used);
  return std::llround(std::max(0.0, buffers_.share * free));
}

void Ports::handle(const PacketEvent& event, PacketHosts& hosts) {
  switch (static_cast<PacketEventKind>(event.kind)) {
    case PacketEventKind::sent:
      return leave(event.subject, event.at, hosts);
    case PacketEventKind::arrived:
      return arrive(event.subject, event.at, hosts);
    case PacketEventKind::pause:
      return pause(event.subject, event.value != 0, event.at, hosts);
    default:
      check(false, "event {} is not the ports'", event.kind);
  }
}

void Ports::pause(std::int32_t link, bool stop, std::int64_t now, PacketHosts& hosts) {
  Port& port = ports_[link];
  if (port.paused == stop) return;
  port.paused = stop;
  if (stop) {
    ++port.counters.pauses;
    port.paused_since = now;
    return;
  }
  port.counters.paused += now - port.paused_since;
  start(link, now, hosts);
}

void Ports::start(std::int32_t link, std::int64_t now, PacketHosts& hosts) {
  Port& port = ports_[link];
  if (port.busy || port.paused || port.down) return;
  std::int32_t at = port.head;
  if (at >= 0) {
    Packet& packet = packets_[at];
    if (port.marks && uniform() < hosts.mark_probability(port.queued * port.marks_scale)) {
      packet.marked = true;
      ++port.counters.marks;
    }
    port.head = packet.next;
    if (port.head < 0) port.tail = -1;
    port.queued -= packet.bytes;
  } else {
    Packet packet;
    if (!hosts.next_packet(link, now, packet)) return;
    if (free_.empty()) {
      at = static_cast<std::int32_t>(packets_.size());
      packets_.push_back(packet);
    } else {
      at = free_.back();
      free_.pop_back();
      packets_[at] = packet;
    }
  }
  port.busy = true;
  on_link_[link] = at;
  const double takes = packets_[at].bytes * port.ps_per_byte;
  events_.push({now + std::llround(takes), 0, link, 0, std::uint8_t(PacketEventKind::sent)});
}

// The last bit is on the cable.
void Ports::leave(std::int32_t link, std::int64_t now, PacketHosts& hosts) {
  Port& port = ports_[link];
  const std::int32_t at = on_link_[link];
  const Packet& packet = packets_[at];
  ++hops_;
  port.busy = false;
  port.counters.carried += packet.bytes;
  if (packet.hop > 0) release(paths_[packet.path][packet.hop - 1], packet.bytes, now);
  if (port.down)
    drop(at, link);
  else
    events_.push({now + port.propagation, 0, at, 0, std::uint8_t(PacketEventKind::arrived)});
  start(link, now, hosts);
}

void Ports::release(std::int32_t ingress, std::int64_t bytes, std::int64_t now) {
  Port& from = ports_[ingress];
  Switch& at = switches_[from.ends_at];
  from.ingress -= bytes;
  at.used -= bytes;
  if (!from.told_to_pause) return;
  if (from.ingress > 0 && from.ingress + kResumeOffset > threshold(at)) return;
  from.told_to_pause = false;
  events_.push({now + from.pause_delay, 0, ingress, 0, std::uint8_t(PacketEventKind::pause)});
}

void Ports::drop(std::int32_t packet, std::int32_t link) {
  ++drops_;
  ++ports_[link].counters.drops;
  free_.push_back(packet);
}

void Ports::arrive(std::int32_t id, std::int64_t now, PacketHosts& hosts) {
  const std::int32_t hop = packets_[id].hop + 1;
  const std::vector<std::int32_t>& path = paths_[packets_[id].path];
  if (hop == static_cast<std::int32_t>(path.size())) {
    const Packet packet = packets_[id];
    free_.push_back(id);
    return hosts.receive(packet, now);
  }
  Packet& packet = packets_[id];
  packet.hop = static_cast<std::int8_t>(hop);
  packet.next = -1;
  const std::int32_t ingress = path[hop - 1], link = path[hop];
  Port& from = ports_[ingress];
  Switch& at = switches_[from.ends_at];
  if (ports_[link].down || (!at.host && at.used + packet.bytes > at.all)) return drop(id, link);
  if (!buffers_.pfc && !at.host && from.ingress + packet.bytes > threshold(at))
    return drop(id, link);
  at.used += packet.bytes;
  from.ingress += packet.bytes;
  if ((buffers_.pfc || at.host) && !from.told_to_pause && from.ingress > threshold(at)) {
    from.told_to_pause = true;
    events_.push({now + from.pause_delay, 0, ingress, 1, std::uint8_t(PacketEventKind::pause)});
  }
  Port& port = ports_[link];
  if (port.tail >= 0)
    packets_[port.tail].next = id;
  else
    port.head = id;
  port.tail = id;
  port.queued += packet.bytes;
  start(link, now, hosts);
}

// A port that goes down loses what waits in it; a host keeps what it has not sent.
void Ports::set_speed(std::int32_t link, double fraction, std::int64_t now, PacketHosts& hosts) {
  Port& port = ports_[link];
  const double rate = fabric_.capacity(LinkId{link});
  port.down = fraction <= 0;
  if (!port.down) {
    port.ps_per_byte = std::isinf(rate) ? 0 : 1e12 / (rate * fraction);
    return start(link, now, hosts);
  }
  while (port.head >= 0) {
    const std::int32_t packet = port.head;
    port.head = packets_[packet].next;
    release(paths_[packets_[packet].path][packets_[packet].hop - 1], packets_[packet].bytes, now);
    drop(packet, link);
  }
  port.tail = -1;
  port.queued = 0;
}

}  // namespace trainyard
