#include "network_models/fabric/fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "core/error.h"
#include "network_models/topology.h"

namespace trainyard {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double limit(Bandwidth bandwidth) { return bandwidth.value > 0 ? bandwidth.value : kUnlimited; }

std::int32_t up(std::int64_t a, std::int64_t b) {
  return static_cast<std::int32_t>((a + b - 1) / b);
}

}  // namespace

Fabric::Fabric(const Cluster& cluster)
    : node_(cluster.node),
      nodes_(cluster.nodes),
      adaptive_(cluster.fabric.adaptive_routing),
      pinned_(cluster.fabric.pinned),
      base_latency_us_(cluster.fabric.base_latency_us),
      hop_latency_us_(cluster.fabric.hop_latency_us) {
  const FabricProfile& fabric = cluster.fabric;
  const bool one_switch = fabric.kind == "single-switch";
  rails_ = fabric.rails;
  nodes_per_tor_ = one_switch ? nodes_ : fabric.nodes_per_tor;
  sets_per_pod_ = std::max(1, fabric.tors_per_pod / rails_);
  tor_sets_ = up(nodes_, nodes_per_tor_);
  pods_ = up(tor_sets_, sets_per_pod_);
  uplinks_ = fabric.tor_uplinks;
  core_ports_ = core_ports(fabric);
  tor_ports_ = adaptive_ ? 1 : uplinks_;
  aggregation_ports_ = adaptive_ ? 1 : core_ports_;

  const auto set = [this](LinkKind out, LinkKind in, double rate) {
    capacity_[static_cast<int>(out)] = capacity_[static_cast<int>(in)] = rate;
  };
  const double uplink = limit(fabric.uplink * node_.nic_efficiency);
  const double into_core = uplink * fabric.tors_per_pod / fabric.oversubscription;
  set(LinkKind::gpu_out, LinkKind::gpu_in, limit(node_.nvlink));
  set(LinkKind::pcie_out, LinkKind::pcie_in, limit(node_.pcie));
  set(LinkKind::nic_out, LinkKind::nic_in, limit(node_.nic * node_.nic_efficiency));
  set(LinkKind::tor_up, LinkKind::tor_down, uplink * uplinks_ / tor_ports_);
  set(LinkKind::core_up, LinkKind::core_down,
      into_core * uplinks_ / tor_ports_ / aggregation_ports_);
  for (int kind = 0; kind < kLinkKinds; ++kind)
    first_[kind + 1] = first_[kind] + links(static_cast<LinkKind>(kind));
}

Time Fabric::latency(int switches) const {
  if (switches == 0) return {};
  return microseconds(base_latency_us_ + (switches - 1) * hop_latency_us_);
}

std::int64_t Fabric::owners(LinkKind kind) const {
  switch (kind) {
    case LinkKind::gpu_out:
    case LinkKind::gpu_in:
      return nvlink() ? gpus() : 0;
    case LinkKind::pcie_out:
    case LinkKind::pcie_in:
      return gpus();
    case LinkKind::nic_out:
    case LinkKind::nic_in:
      return std::int64_t{nodes_} * node_.nics;
    case LinkKind::tor_up:
    case LinkKind::tor_down:
      return tor_sets_ > 1 ? tors() : 0;
    default:
      return pods_ > 1 ? std::int64_t{pods_} * tor_ports_ : 0;
  }
}

std::int32_t Fabric::ports(LinkKind kind) const {
  if (kind == LinkKind::tor_up || kind == LinkKind::tor_down) return tor_ports_;
  return kind == LinkKind::core_up || kind == LinkKind::core_down ? aggregation_ports_ : 1;
}

std::int64_t Fabric::links(LinkKind kind) const { return owners(kind) * ports(kind); }

bool Fabric::has(const LinkPlace& place) const {
  return place.owner >= 0 && place.owner < owners(place.kind) && place.port >= 0 &&
         place.port < ports(place.kind);
}

LinkId Fabric::link(const LinkPlace& place) const {
  check(has(place), "no port {} of {}", place.port, place.owner);
  const std::int64_t within = std::int64_t{place.owner} * ports(place.kind) + place.port;
  return LinkId{static_cast<std::int32_t>(first_[static_cast<int>(place.kind)] + within)};
}

LinkId Fabric::named(std::string_view text) const {
  static constexpr std::array<std::string_view, kLinkKinds> kKinds{
      "gpu_out", "gpu_in", "pcie_out", "pcie_in", "nic_out",
      "nic_in",  "tor_up", "tor_down", "core_up", "core_down"};
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto* const kind = std::ranges::find(kKinds, text.substr(0, colon));
  LinkPlace place{static_cast<LinkKind>(kind - kKinds.begin())};
  std::string_view rest = text.substr(colon);
  bool numbers = true;
  const auto read = [&](std::int32_t& out) {
    const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), out);
    numbers = error == std::errc();
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  };
  if (rest.empty()) numbers = false;
  if (numbers) read(place.owner);
  if (numbers && rest.starts_with(':')) read(place.port);
  if (kind == kKinds.end() || !numbers || !rest.empty())
    throw ConfigError(
        fmt::format("link \"{}\": write KIND:NUMBER or KIND:NUMBER:PORT, such as "
                    "tor_up:3:5; kinds: {}",
                    text, fmt::join(kKinds, ", ")));
  if (!has(place))
    throw ConfigError(
        fmt::format("link \"{}\": the fabric has no such link; {} has {} with {} "
                    "ports each",
                    text, *kind, owners(place.kind), ports(place.kind)));
  return link(place);
}

LinkPlace Fabric::place(LinkId link) const {
  check(index(link) >= 0 && index(link) < links(), "no link {}", index(link));
  const auto after = std::upper_bound(first_.begin(), first_.end(), index(link));
  const auto kind = static_cast<LinkKind>(after - first_.begin() - 1);
  const std::int64_t within = index(link) - *(after - 1);
  return {kind, static_cast<std::int32_t>(within / ports(kind)),
          static_cast<std::int32_t>(within % ports(kind))};
}

std::string Fabric::name(LinkId link) const {
  static constexpr std::array<const char*, kLinkKinds> kNames{
      "NVLink from", "NVLink to", "PCIe from", "PCIe to", "cable from",
      "cable to",    "uplink",    "uplink",    "uplink",  "uplink"};
  const LinkPlace at = place(link);
  const int kind = static_cast<int>(at.kind);
  const bool out = kind % 2 == 0;
  if (at.kind <= LinkKind::pcie_in)
    return fmt::format("{} GPU {} of node {}", kNames[kind], at.owner % node_.gpus,
                       at.owner / node_.gpus);
  if (at.kind <= LinkKind::nic_in)
    return fmt::format("{} card {} of node {}", kNames[kind], at.owner % node_.nics,
                       at.owner / node_.nics);
  const bool tor = at.kind == LinkKind::tor_up || at.kind == LinkKind::tor_down;
  return fmt::format("{} {} of {} {}{}", kNames[kind], at.port,
                     tor ? "ToR switch" : "aggregation switch", at.owner, out ? "" : ", downwards");
}

}  // namespace trainyard
