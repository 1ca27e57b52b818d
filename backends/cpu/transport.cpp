#include "backends/cpu/transport.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include "backends/common/patience.h"
#include "core/error.h"

namespace trainyard {
namespace {

// What a rank says first on a connection. Whoever says anything else is no rank of this run.
struct Hello {
  std::array<char, 96> address{};  // of whom it means to reach
  std::int32_t rank = 0;
  std::int32_t channel = 0;
};

Hello hello(const std::string& address, RankId rank, std::uint8_t channel) {
  Hello out{{}, static_cast<std::int32_t>(index(rank)), channel};
  check(address.size() < out.address.size(), "an address of {} bytes", address.size());
  std::memcpy(out.address.data(), address.data(), address.size());
  return out;
}

std::string address_key(RankId rank) { return fmt::format("address/{}", index(rank)); }

}  // namespace

void Transport::connect(const Mesh& mesh, Store* store) {
  for (int g = 0; g < kGroups; ++g) {
    Members& group = groups_[static_cast<std::size_t>(g)];
    group.members = mesh.members(static_cast<Group>(g), rank_);
    const auto own = std::ranges::find(group.members, rank_);
    group.place = static_cast<std::int32_t>(own - group.members.begin());
  }
  if (mesh.size() < 2) return;
  check(store != nullptr, "{} ranks have no store to meet in", mesh.size());
  store_ = store;
  listener_ = options_.one_host ? listen_on_host() : listen_on_network(options_.interface);
  store_->set(address_key(rank_), listener_.address);
}

// Where the peers are that have not been called yet.
void Transport::learn(std::span<const Link> links) {
  std::vector<RankId> peers;
  for (const Link& link : links)
    if (!addresses_.contains(link.peer) && std::ranges::find(peers, link.peer) == peers.end())
      peers.push_back(link.peer);
  if (peers.empty()) return;
  check(store_ != nullptr, "rank {} has not met the others", index(rank_));
  std::vector<std::string> keys;
  for (const RankId peer : peers) keys.push_back(address_key(peer));
  try {
    const auto values = wait_for(*store_, keys, options_.timeout);
    for (std::size_t i = 0; i < peers.size(); ++i) addresses_[peers[i]] = values[i];
  } catch (const StoreTimeout& timeout) {
    std::vector<Link> absent;
    for (std::size_t i = 0; i < peers.size(); ++i)
      if (std::ranges::find(timeout.missing(), keys[i]) != timeout.missing().end())
        absent.push_back({peers[i]});
    missing(absent);
  }
}

// Of two ranks the lower one calls, so none waits for the other's call before it has made its own.
void Transport::open(std::span<const Link> links) {
  std::vector<Link> open;
  for (const Link& link : links)
    if (link.peer != rank_ && !sockets_.contains(link)) open.push_back(link);
  if (open.empty()) return;
  learn(open);
  const SteadyTime deadline = SteadyTime::clock::now() + options_.timeout;
  for (const Link& link : open)
    if (rank_ < link.peer && !sockets_.contains(link)) call(link, deadline);
  const auto arrived = [&](const Link& link) { return sockets_.contains(link); };
  while (!std::ranges::all_of(open, arrived)) {
    answer(deadline);
    if (SteadyTime::clock::now() < deadline) continue;
    std::erase_if(open, arrived);
    if (!open.empty()) missing(open);
  }
}

void Transport::call(Link link, SteadyTime deadline) {
  const std::string& address = addresses_[link.peer];
  const Hello first = hello(address, rank_, link.channel);
  try {
    Socket socket = connect_to(address, deadline);
    if (!write_whole(socket, &first, sizeof first, deadline))
      throw PeerGone(fmt::format("rank {} closed the connection", index(link.peer)));
    sockets_.emplace(link, std::move(socket));
  } catch (const std::system_error& error) {
    if (error.code().value() == ETIMEDOUT) missing(std::span(&link, 1));
    throw PeerError(fmt::format("rank {} cannot be reached at {}: {}", index(link.peer), address,
                                std::generic_category().message(error.code().value())));
  }
}

// Takes the next call, whether it is waited for now or later.
void Transport::answer(SteadyTime deadline) {
  constexpr std::chrono::seconds kLongestHello{5};  // a rank says it at once
  std::optional<Socket> socket = accept_from(listener_, deadline);
  Hello first;
  const SteadyTime said = std::min(deadline, SteadyTime::clock::now() + kLongestHello);
  if (!socket || !read_whole(*socket, &first, sizeof first, said)) return;
  const Link link{RankId(first.rank), static_cast<std::uint8_t>(first.channel)};
  const Hello expected = hello(listener_.address, link.peer, link.channel);
  if (std::memcmp(&first, &expected, sizeof first) == 0) sockets_.emplace(link, std::move(*socket));
}

void Transport::missing(std::span<const Link> links) const {
  std::vector<std::string> names;
  for (const Link& link : links) {
    const std::string name = fmt::format("rank {}", index(link.peer));
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  throw PeerError(fmt::format("{} did not connect within {:g} s", fmt::join(names, ", "),
                              in_seconds(options_.timeout)));
}

std::vector<Link> Transport::links(Group group, std::uint8_t channel) const {
  std::vector<Link> out;
  for (const RankId member : members(group))
    if (member != rank_) out.push_back({member, channel});
  return out;
}

int Transport::socket(Link link) const {
  const auto found = sockets_.find(link);
  check(found != sockets_.end(), "rank {} has no channel {} to rank {}", index(rank_), link.channel,
        index(link.peer));
  return found->second.fd();
}

void Transport::close() {
  for (const auto& [link, socket] : sockets_) ::shutdown(socket.fd(), SHUT_RDWR);
}

}  // namespace trainyard
