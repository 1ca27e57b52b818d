#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/common/store.h"
#include "core/mesh/mesh.h"

namespace gloo {
class Context;
namespace transport {
class Device;
class UnboundBuffer;
}  // namespace transport
}  // namespace gloo

namespace trainyard {

// A peer that is missing, silent or gone; the text names its rank.
class PeerError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct TransportOptions {
  std::chrono::milliseconds timeout{120'000};
  bool one_host = true;   // all ranks share this host and talk over its loopback interface
  std::string interface;  // the one to use otherwise; empty: the one of the host's name
};

// A message under way. Its memory must stay as it is until wait() returns.
class Transfer {
 public:
  enum class Kind : std::uint8_t { send, receive };
  Transfer(std::unique_ptr<gloo::transport::UnboundBuffer> buffer, Kind kind, RankId peer,
           std::chrono::milliseconds timeout);
  ~Transfer();
  Transfer(Transfer&&) noexcept;
  Transfer& operator=(Transfer&&) noexcept;
  void wait();  // throws PeerError

 private:
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  Kind kind_;
  RankId peer_;
  std::chrono::milliseconds timeout_;
};

// Messages between a rank and the members of its groups, over TCP (Gloo), a context a group.
class Transport {
 public:
  Transport(RankId rank, TransportOptions options);
  ~Transport();

  // Connects the groups of the mesh that have more than one member, by way of the
  // store.
  // `store` may be null for a mesh of one rank.
  void connect(const Mesh& mesh, Store* store);

  RankId rank() const { return rank_; }
  // Members of this rank's group, in the mesh's order, and this rank's place among them.
  const std::vector<RankId>& members(Group group) const { return groups_[at(group)].members; }
  std::int32_t place(Group group) const { return groups_[at(group)].place; }

  // Messages of one pair and slot arrive in the order in which they were sent. A receive must be
  // as long as its send.
  Transfer send(Group group, std::int32_t member, std::uint64_t slot,
                std::span<const std::byte> message);
  Transfer receive(Group group, std::int32_t member, std::uint64_t slot,
                   std::span<std::byte> message);

  // Closes all connections: every transfer under way, here and at the peers, ends with an error.
  void close();

 private:
  struct GroupLinks {
    std::vector<RankId> members;
    std::int32_t place = 0;
    std::shared_ptr<gloo::Context> context;
  };
  static constexpr std::size_t at(Group group) { return static_cast<std::size_t>(group); }
  void open_device();
  void connect_group(Group group, Store& store);
  Transfer start(Transfer::Kind kind, Group group, std::int32_t member, std::uint64_t slot,
                 std::span<std::byte> message);

  RankId rank_;
  TransportOptions options_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::array<GroupLinks, kGroups> groups_;
};

}  // namespace trainyard
