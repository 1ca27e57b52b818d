#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/job.h"

namespace trainyard {

// One direction of a cable, by where it is.
enum class LinkKind : std::uint8_t {
  gpu_out,  // GPU to the NVLink switches of its node, and back
  gpu_in,
  pcie_out,  // GPU to its cards, or to other GPUs where there is no NVLink
  pcie_in,
  nic_out,  // card to its ToR switch
  nic_in,
  tor_up,  // ToR to aggregation switch
  tor_down,
  core_up,  // aggregation to core switch
  core_down,
};
inline constexpr int kLinkKinds = 10;

// `owner` is the GPU, card, ToR or aggregation switch at the lower end, `port` its port upwards.
struct LinkPlace {
  LinkKind kind{};
  std::int32_t owner = 0, port = 0;
  bool operator==(const LinkPlace&) const = default;
};

// Every cable of a cluster, numbered; nothing is stored per cable. GPUs, cards and ToRs are
// numbered node by node and set by set: GPU g of node n is n * gpus_per_node + g, ToR r of set s is
// s * rails + r, aggregation switch u of pod p is p * aggregations() + u.
//
// A ToR has one uplink to each of its pod's aggregation switches; aggregation switch u of every pod
// has one to each of the core switches of plane u. So a packet's way down follows from its way up.
// Switches that spread packets by load (adaptive_routing) use their uplinks as one wide one: the
// bound that such routing can reach.
class Fabric {
 public:
  explicit Fabric(const Cluster& cluster);

  std::int64_t links() const { return first_.back(); }
  std::int64_t links(LinkKind kind) const;
  // The link called KIND:OWNER or KIND:OWNER:PORT, such as "tor_up:3:5"; throws ConfigError that
  // says what is wrong with it.
  LinkId named(std::string_view text) const;
  LinkId link(const LinkPlace& place) const;
  // Both directions of a link's cable; of all cables of the switch called tor:NUMBER,
  // aggregation:NUMBER or core:PLANE:PORT (throws ConfigError); of a node's card.
  std::vector<LinkId> cable(LinkId link) const;
  std::vector<LinkId> cables_of_switch(std::string_view text) const;
  std::vector<LinkId> cable_of_card(std::int32_t node, std::int32_t card) const;
  LinkPlace place(LinkId link) const;
  std::string name(LinkId link) const;  // "uplink 3 of ToR 17"
  // Payload bytes per second; infinite where the profile sets no limit.
  double capacity(LinkKind kind) const { return capacity_[static_cast<int>(kind)]; }
  double capacity(LinkId link) const { return capacity(place(link).kind); }

  const NodeProfile& node() const { return node_; }
  bool nvlink() const { return node_.nvlink.value > 0; }
  std::int32_t nodes() const { return nodes_; }
  std::int32_t gpus() const { return nodes_ * node_.gpus; }
  std::int32_t rails() const { return rails_; }
  std::int32_t tors() const { return tor_sets_ * rails_; }
  std::int32_t tor_sets() const { return tor_sets_; }
  std::int32_t pods() const { return pods_; }
  std::int32_t tors_per_pod() const { return sets_per_pod_ * rails_; }
  // Of one pod, and core switches of one plane; 0 where nothing is that far away.
  std::int32_t aggregations() const { return tor_sets_ > 1 ? uplinks_ : 0; }
  std::int32_t cores_per_plane() const { return pods_ > 1 ? core_ports_ : 0; }
  // Of a ToR and of an aggregation switch, as routing sees them.
  std::int32_t tor_ports() const { return tor_ports_; }
  std::int32_t aggregation_ports() const { return aggregation_ports_; }
  bool adaptive() const { return adaptive_; }
  bool pinned() const { return pinned_; }
  // Of a path over so many switches outside the nodes, queues empty.
  Time latency(int switches) const;

  std::int32_t nodes_per_tor() const { return nodes_per_tor_; }
  std::int32_t tor_set(std::int32_t node) const { return node / nodes_per_tor_; }
  std::int32_t pod_of_set(std::int32_t set) const { return set / sets_per_pod_; }

 private:
  bool has(const LinkPlace& place) const;
  std::vector<LinkId> both(LinkPlace out) const;
  std::int64_t owners(LinkKind kind) const;
  std::int32_t ports(LinkKind kind) const;

  NodeProfile node_;
  std::int32_t nodes_, rails_, nodes_per_tor_, sets_per_pod_, tor_sets_, pods_;
  std::int32_t uplinks_, core_ports_;           // cables
  std::int32_t tor_ports_, aggregation_ports_;  // ways a packet may take
  bool adaptive_, pinned_;
  double base_latency_us_, hop_latency_us_;
  std::array<double, kLinkKinds> capacity_{};
  std::array<std::int64_t, kLinkKinds + 1> first_{};
};

}  // namespace trainyard
