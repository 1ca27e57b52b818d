#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/random.h"
#include "network_models/fabric/fabric.h"

namespace trainyard {

// One queue pair of a connection between two GPUs. `channel` tells connections of the same two
// GPUs apart, `number` the queue pairs of one connection.
struct QueuePair {
  std::int32_t source = 0, target = 0;  // GPUs of the cluster, not ranks
  std::uint32_t channel = 0, number = 0;
};

// The links of a path in the order packets cross them.
struct Path {
  static constexpr int kMost = 10;
  std::array<LinkId, kMost> link{};
  std::int8_t links = 0, switches = 0;  // switches outside the nodes

  std::span<const LinkId> span() const { return {link.data(), static_cast<std::size_t>(links)}; }
};

// UDP source port of a RoCEv2 queue pair: its two numbers folded to 14 bits, as Linux does where
// no flow label is set (rdma_calc_flow_label and rdma_flow_label_to_udp_sport in
// include/rdma/ib_verbs.h). All that tells packets of two cards apart to a switch.
std::uint16_t roce_source_port(std::uint32_t local_qp, std::uint32_t remote_qp);

// Finds the path of every queue pair: at each switch the hash of addresses and ports picks one of
// the ways up that lead to the target. Cards hand out queue pair numbers that are drawn from
// `seed`. Each switch mixes its own number into the hash unless the fabric is `polarised`.
//
// Rails: a packet leaves by the card that meets the target's on one rail; where that card is beside
// another GPU, NVLink (or PCIe) takes the data there first, as NCCL does (PXN).
class Router {
 public:
  Router(const Fabric& fabric, bool polarised, std::uint64_t seed);

  // A link that is down is no way up any more. Whoever asks for paths decides when switches know.
  void set_up(LinkId link, bool up);

  // None if no way is left between both ends.
  std::optional<Path> find(const QueuePair& pair) const;
  // Throws ConfigError that names both ends if there is none.
  Path path(const QueuePair& pair) const;

 private:
  struct Headers;  // what switches hash, or look up
  struct Walk;     // a path in the making
  struct Cards {
    std::int32_t source, target;
    std::int32_t beside;  // the GPU whose card sends
  };

  bool up(const LinkPlace& place) const;
  std::int32_t card_of(std::int32_t gpu, std::uint32_t turn) const;
  std::int32_t rail(std::int32_t card) const;
  std::int32_t tor(std::int32_t card) const;
  std::uint32_t pinned_way(const Headers& headers, bool from_tor) const;
  std::optional<Cards> cards(const QueuePair& pair) const;
  void inside(std::int32_t source, std::int32_t target, Walk& walk) const;
  bool climb(std::int32_t source_tor, std::int32_t target_tor, Walk& walk) const;
  bool cross_core(std::int32_t source_pod, std::int32_t target_pod, std::int32_t plane,
                  Walk& walk) const;
  bool leads_on(std::int32_t source_tor, std::int32_t target_tor, std::int32_t plane) const;
  bool core_is_up(std::int32_t source_aggregation, std::int32_t target_aggregation,
                  std::int32_t port) const;
  template <class Usable>
  std::int32_t choose(const Walk& walk, std::uint32_t of_switch, std::int32_t ports,
                      Usable usable) const;

  Fabric fabric_;
  bool polarised_;
  PhiloxKey queue_pairs_, hashes_;
  std::vector<bool> down_;  // empty: all are up
  std::int64_t downs_ = 0;
};

}  // namespace trainyard
