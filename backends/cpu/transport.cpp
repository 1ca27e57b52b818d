#include "backends/cpu/transport.h"

#include <fmt/format.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <sched.h>

#include <algorithm>
#include <future>

#include "core/error.h"

namespace trainyard {
namespace {

// Gloo's thread looks again and again at a connection whose lock a stream's thread holds. On a busy
// machine it would keep that very thread from the processor, for a time slice a message; so it runs
// when nobody else wants to. Threads inherit how they are scheduled.
std::shared_ptr<gloo::transport::Device> make_device(const gloo::transport::tcp::attr& attributes) {
  return std::async(std::launch::async,
                    [&] {
                      const sched_param any{};
                      ::sched_setscheduler(0, SCHED_IDLE, &any);  // if refused, it is as it was
                      return gloo::transport::tcp::CreateDevice(attributes);
                    })
      .get();
}

// Gloo's view of a store: the addresses of one group.
class GroupStore final : public gloo::rendezvous::Store {
 public:
  GroupStore(trainyard::Store& store, std::string prefix, std::chrono::milliseconds timeout)
      : store_(store), prefix_(std::move(prefix)), timeout_(timeout) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_.set(prefix_ + key, {data.data(), data.size()});
  }
  std::vector<char> get(const std::string& key) override {
    wait({key});
    const std::string value = store_.get(prefix_ + key).value_or("");
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    std::vector<std::string> full;
    for (const std::string& key : keys) full.push_back(prefix_ + key);
    wait_for(store_, full, timeout);
  }

 private:
  trainyard::Store& store_;
  std::string prefix_;
  std::chrono::milliseconds timeout_;
};

}  // namespace

Transfer::Transfer(std::unique_ptr<gloo::transport::UnboundBuffer> buffer, Kind kind, RankId peer,
                   std::chrono::milliseconds timeout)
    : buffer_(std::move(buffer)), kind_(kind), peer_(peer), timeout_(timeout) {}
Transfer::~Transfer() = default;
Transfer::Transfer(Transfer&&) noexcept = default;
Transfer& Transfer::operator=(Transfer&&) noexcept = default;

void Transfer::wait() try {
  if (kind_ == Kind::send)
    buffer_->waitSend(timeout_);
  else
    buffer_->waitRecv(timeout_);
} catch (const std::exception& error) {
  const std::string_view text = error.what();
  if (text.find("imed out") != std::string_view::npos)
    throw PeerError(fmt::format("rank {} did not answer within {:g} s", index(peer_),
                                static_cast<double>(timeout_.count()) / 1e3));
  throw PeerError(fmt::format("rank {} closed the connection", index(peer_)));
}

Transport::Transport(RankId rank, TransportOptions options)
    : rank_(rank), options_(std::move(options)) {}
Transport::~Transport() = default;

void Transport::open_device() {
  gloo::transport::tcp::attr attributes;
  if (options_.one_host)
    attributes.hostname = "127.0.0.1";
  else
    attributes.iface = options_.interface;
  try {
    device_ = make_device(attributes);
  } catch (const std::exception& error) {
    throw ConfigError(fmt::format(
        "network interface {} cannot be used: {}",
        options_.interface.empty() ? "of the host's name" : options_.interface, error.what()));
  }
}

void Transport::connect_group(Group group, Store& store) {
  GroupLinks& links = groups_[at(group)];
  GroupStore group_store(store,
                         fmt::format("{}/{}/", group_name(group), index(links.members.front())),
                         options_.timeout);
  auto context = std::make_shared<gloo::rendezvous::Context>(
      links.place, static_cast<int>(links.members.size()));
  context->setTimeout(options_.timeout);
  try {
    context->connectFullMesh(group_store, device_);
  } catch (const std::exception& error) {
    throw PeerError(fmt::format("connecting the {} group from rank {} on failed: {}",
                                group_name(group), index(links.members.front()), error.what()));
  }
  links.context = std::move(context);
}

void Transport::connect(const Mesh& mesh, Store* store) {
  if (mesh.size() > 1) {
    check(store != nullptr, "{} ranks have no store to meet in", mesh.size());
    open_device();
  }
  for (int g = 0; g < kGroups; ++g) {
    const Group group = static_cast<Group>(g);
    GroupLinks& links = groups_[at(group)];
    links.members = mesh.members(group, rank_);
    const auto own = std::ranges::find(links.members, rank_);
    links.place = static_cast<std::int32_t>(own - links.members.begin());
    if (links.members.size() > 1 && own != links.members.end()) connect_group(group, *store);
  }
}

Transfer Transport::start(Transfer::Kind kind, Group group, std::int32_t member, std::uint64_t slot,
                          std::span<std::byte> message) {
  GroupLinks& links = groups_[at(group)];
  const RankId peer = links.members.at(static_cast<std::size_t>(member));
  check(links.context != nullptr, "group {} of rank {} has one member", group_name(group),
        index(rank_));
  auto buffer = links.context->createUnboundBuffer(message.data(), message.size());
  try {
    if (kind == Transfer::Kind::send)
      buffer->send(member, slot);
    else
      buffer->recv(member, slot);
  } catch (const std::exception&) {
    throw PeerError(fmt::format("rank {} closed the connection", index(peer)));
  }
  return {std::move(buffer), kind, peer, options_.timeout};
}

Transfer Transport::send(Group group, std::int32_t member, std::uint64_t slot,
                         std::span<const std::byte> message) {
  // Gloo's buffers serve both ways, so they take memory that could be written.
  return start(Transfer::Kind::send, group, member, slot,
               {const_cast<std::byte*>(message.data()), message.size()});
}

Transfer Transport::receive(Group group, std::int32_t member, std::uint64_t slot,
                            std::span<std::byte> message) {
  return start(Transfer::Kind::receive, group, member, slot, message);
}

void Transport::close() {
  for (GroupLinks& links : groups_)
    if (links.context) links.context->closeConnections();
}

}  // namespace trainyard
