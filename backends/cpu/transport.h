#pragma once
#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "backends/common/peer_error.h"
#include "backends/common/store.h"
#include "backends/cpu/sockets.h"
#include "core/mesh/mesh.h"

namespace trainyard {

struct TransportOptions {
  std::chrono::milliseconds timeout{120'000};
  bool one_host = true;   // all ranks share this host and need no network
  std::string interface;  // the one to use otherwise; empty: the one of the host's name
};

// One of a rank's connections: to whom and for what. Threads that use different channels share
// neither a socket nor a lock.
struct Link {
  RankId peer{};
  std::uint8_t channel = 0;
  auto operator<=>(const Link&) const = default;
};

// Who is in this rank's groups, and its connections to them. What goes over them is in Exchange.
class Transport {
 public:
  Transport(RankId rank, TransportOptions options) : rank_(rank), options_(std::move(options)) {}

  // Makes this rank's address known to the others, and theirs to it, by way of the store. `store`
  // may be null for a mesh of one rank, and has to last until the last open().
  void connect(const Mesh& mesh, Store* store);

  // Opens those links that are not open yet. The peers open the same at about the same time.
  // Throws PeerError that names who did not.
  void open(std::span<const Link> links);

  RankId rank() const { return rank_; }
  std::chrono::milliseconds timeout() const { return options_.timeout; }
  // Members of this rank's group, in the mesh's order, and this rank's place among them.
  const std::vector<RankId>& members(Group group) const { return groups_[at(group)].members; }
  std::int32_t place(Group group) const { return groups_[at(group)].place; }
  // Links to the other members of a group.
  std::vector<Link> links(Group group, std::uint8_t channel) const;
  // The socket of an open link.
  int socket(Link link) const;

  // Shuts all links: whoever waits at one, here or at its other end, stops with an error.
  void close();

 private:
  struct Members {
    std::vector<RankId> members;
    std::int32_t place = 0;
  };
  static constexpr std::size_t at(Group group) { return static_cast<std::size_t>(group); }
  void learn(std::span<const Link> links);
  void call(Link link, SteadyTime deadline);
  void answer(SteadyTime deadline);
  [[noreturn]] void missing(std::span<const Link> links) const;

  RankId rank_;
  TransportOptions options_;
  std::array<Members, kGroups> groups_;
  Store* store_ = nullptr;
  Listener listener_;
  std::map<RankId, std::string> addresses_;
  std::map<Link, Socket> sockets_;
};

}  // namespace trainyard
