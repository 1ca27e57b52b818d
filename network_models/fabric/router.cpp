#include "network_models/fabric/router.h"

#include <algorithm>

#include "core/error.h"

namespace trainyard {
namespace {

constexpr std::uint32_t kQueuePairNumbers = (1U << 24) - 1;
constexpr std::uint32_t kRocePort = 4791;

}  // namespace

std::uint16_t roce_source_port(std::uint32_t local_qp, std::uint32_t remote_qp) {
  const std::uint64_t product = std::uint64_t{local_qp} * remote_qp;
  const std::uint64_t label = (product ^ product >> 20 ^ product >> 40) & 0xFFFFF;
  return static_cast<std::uint16_t>(((label & 0x3FFF) ^ label >> 14) | 0xC000);
}

struct Router::Headers {
  std::uint32_t source = 0, target = 0;  // addresses: a card's number
  std::uint16_t source_port = 0;
};

// Meta's path pinning (SIGCOMM 2024, section 5): the target's place below its ToR switch picks the
// uplink, so that a permutation between full racks collides nowhere; its ToR switch picks the port
// into the core.
std::uint32_t Router::pinned_way(const Headers& headers, bool from_tor) const {
  const auto card = static_cast<std::int32_t>(headers.target);
  const std::int32_t nics = fabric_.node().nics, rails = fabric_.rails();
  const std::int32_t node = card / nics % fabric_.nodes_per_tor();
  const std::int32_t place = node * (nics / rails) + card % nics / rails;
  return static_cast<std::uint32_t>(from_tor ? place : tor(card));
}

struct Router::Walk {
  const QueuePair& pair;
  Headers headers{};
  Path path{};
  void over(LinkId link) { path.link[path.links++] = link; }
};

Router::Router(const Fabric& fabric, bool polarised, std::uint64_t seed)
    : fabric_(fabric),
      polarised_(polarised),
      queue_pairs_(random_key(seed, "queue pair numbers")),
      hashes_(random_key(seed, "switch hashes")) {}

void Router::set_up(LinkId link, bool up) {
  if (down_.empty()) down_.resize(static_cast<std::size_t>(fabric_.links()));
  const auto at = static_cast<std::size_t>(index(link));
  if (down_[at] == up) downs_ += up ? -1 : 1;
  down_[at] = !up;
}

bool Router::up(const LinkPlace& place) const {
  return downs_ == 0 || !down_[static_cast<std::size_t>(index(fabric_.link(place)))];
}

// The cards of a GPU take turns.
std::int32_t Router::card_of(std::int32_t gpu, std::uint32_t turn) const {
  const NodeProfile& node = fabric_.node();
  const auto cards = static_cast<std::uint32_t>(std::max(1, node.nics / node.gpus));
  return gpu / node.gpus * node.nics + gpu % node.gpus * node.nics / node.gpus +
         static_cast<std::int32_t>(turn % cards);
}

std::int32_t Router::rail(std::int32_t card) const {
  return card % fabric_.node().nics % fabric_.rails();
}

std::int32_t Router::tor(std::int32_t card) const {
  return fabric_.tor_set(card / fabric_.node().nics) * fabric_.rails() + rail(card);
}

// The cards of both ends; a GPU with several falls back on another pair if a cable is down.
std::optional<Router::Cards> Router::cards(const QueuePair& pair) const {
  const NodeProfile& node = fabric_.node();
  const auto attempts = static_cast<std::uint32_t>(std::max(1, node.nics / node.gpus));
  for (std::uint32_t attempt = 0; attempt < attempts; ++attempt) {
    const std::uint32_t turn = pair.channel + pair.number + attempt;
    Cards cards{card_of(pair.source, turn), card_of(pair.target, turn), pair.source};
    if (rail(cards.source) != rail(cards.target)) {
      const std::int32_t of_node = cards.target % node.nics, at = pair.source / node.gpus;
      cards.source = at * node.nics + of_node;
      cards.beside = at * node.gpus + of_node * node.gpus / node.nics;
    }
    if (up({LinkKind::nic_out, cards.source}) && up({LinkKind::nic_in, cards.target})) return cards;
  }
  return std::nullopt;
}

void Router::inside(std::int32_t source, std::int32_t target, Walk& walk) const {
  walk.over(fabric_.link({fabric_.nvlink() ? LinkKind::gpu_out : LinkKind::pcie_out, source}));
  walk.over(fabric_.link({fabric_.nvlink() ? LinkKind::gpu_in : LinkKind::pcie_in, target}));
}

std::optional<Path> Router::find(const QueuePair& pair) const {
  const NodeProfile& node = fabric_.node();
  Walk walk{pair};
  if (pair.source / node.gpus == pair.target / node.gpus) {
    if (pair.source != pair.target) inside(pair.source, pair.target, walk);
    return walk.path;
  }
  const auto chosen = cards(pair);
  if (!chosen) return std::nullopt;
  const auto [source, target, beside] = *chosen;
  if (beside != pair.source) inside(pair.source, beside, walk);
  const PhiloxBlock drawn =
      philox(queue_pairs_, {static_cast<std::uint32_t>(source), static_cast<std::uint32_t>(target),
                            pair.channel, pair.number});
  walk.headers = {static_cast<std::uint32_t>(source), static_cast<std::uint32_t>(target),
                  roce_source_port(drawn[0] & kQueuePairNumbers, drawn[1] & kQueuePairNumbers)};
  walk.over(fabric_.link({LinkKind::pcie_out, beside}));
  walk.over(fabric_.link({LinkKind::nic_out, source}));
  if (!climb(tor(source), tor(target), walk)) return std::nullopt;
  walk.over(fabric_.link({LinkKind::nic_in, target}));
  walk.over(fabric_.link({LinkKind::pcie_in, pair.target}));
  return walk.path;
}

// From a ToR switch to another, by way of as few tiers as possible; false if there is no way.
bool Router::climb(std::int32_t source_tor, std::int32_t target_tor, Walk& walk) const {
  walk.path.switches = 1;
  if (source_tor == target_tor) return true;
  const std::int32_t plane =
      choose(walk, static_cast<std::uint32_t>(source_tor), fabric_.tor_ports(),
             [&](std::int32_t port) { return leads_on(source_tor, target_tor, port); });
  if (plane < 0) return false;
  walk.over(fabric_.link({LinkKind::tor_up, source_tor, plane}));
  walk.path.switches = 3;
  const std::int32_t source_pod = fabric_.pod_of_set(source_tor / fabric_.rails());
  const std::int32_t target_pod = fabric_.pod_of_set(target_tor / fabric_.rails());
  if (source_pod != target_pod && !cross_core(source_pod, target_pod, plane, walk)) return false;
  walk.over(fabric_.link({LinkKind::tor_down, target_tor, plane}));
  return true;
}

bool Router::cross_core(std::int32_t source_pod, std::int32_t target_pod, std::int32_t plane,
                        Walk& walk) const {
  const std::int32_t source = source_pod * fabric_.tor_ports() + plane;
  const std::int32_t target = target_pod * fabric_.tor_ports() + plane;
  const std::int32_t port =
      choose(walk, static_cast<std::uint32_t>(fabric_.tors() + source), fabric_.aggregation_ports(),
             [&](std::int32_t candidate) { return core_is_up(source, target, candidate); });
  if (port < 0) return false;
  walk.over(fabric_.link({LinkKind::core_up, source, port}));
  walk.over(fabric_.link({LinkKind::core_down, target, port}));
  walk.path.switches = 5;
  return true;
}

bool Router::core_is_up(std::int32_t source_aggregation, std::int32_t target_aggregation,
                        std::int32_t port) const {
  return up({LinkKind::core_up, source_aggregation, port}) &&
         up({LinkKind::core_down, target_aggregation, port});
}

// Whether the aggregation switches of `plane` lead from one ToR switch to the other.
bool Router::leads_on(std::int32_t source_tor, std::int32_t target_tor, std::int32_t plane) const {
  if (!up({LinkKind::tor_up, source_tor, plane}) || !up({LinkKind::tor_down, target_tor, plane}))
    return false;
  const std::int32_t source_pod = fabric_.pod_of_set(source_tor / fabric_.rails());
  const std::int32_t target_pod = fabric_.pod_of_set(target_tor / fabric_.rails());
  if (source_pod == target_pod) return true;
  const std::int32_t source = source_pod * fabric_.tor_ports() + plane;
  const std::int32_t target = target_pod * fabric_.tor_ports() + plane;
  for (std::int32_t port = 0; port < fabric_.aggregation_ports(); ++port)
    if (core_is_up(source, target, port)) return true;
  return false;
}

// The port that ECMP picks out of the usable ones: number hash mod n; -1 if there is none.
template <class Usable>
std::int32_t Router::choose(const Walk& walk, std::uint32_t of_switch, std::int32_t ports,
                            Usable usable) const {
  const std::uint32_t addend = polarised_ ? 0 : of_switch;
  const std::uint32_t both_ports = std::uint32_t{walk.headers.source_port} << 16 | kRocePort;
  const bool from_tor = of_switch < static_cast<std::uint32_t>(fabric_.tors());
  const std::uint32_t hash =
      fabric_.pinned()
          ? pinned_way(walk.headers, from_tor)
          : philox(hashes_, {walk.headers.source, walk.headers.target, both_ports, addend})[0];
  if (downs_ == 0) return static_cast<std::int32_t>(hash % static_cast<std::uint32_t>(ports));
  std::vector<std::int32_t> ways;
  for (std::int32_t port = 0; port < ports; ++port)
    if (usable(port)) ways.push_back(port);
  if (ways.empty()) return -1;
  return ways[hash % ways.size()];
}

Path Router::path(const QueuePair& pair) const {
  if (const auto found = find(pair)) return *found;
  const std::int32_t gpus = fabric_.node().gpus;
  throw ConfigError(fmt::format(
      "no path is left from GPU {} of node {} to GPU {} of node {}: too many links are down",
      pair.source % gpus, pair.source / gpus, pair.target % gpus, pair.target / gpus));
}

}  // namespace trainyard
