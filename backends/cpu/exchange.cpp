#include "backends/cpu/exchange.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "backends/common/patience.h"
#include "core/error.h"

namespace trainyard {

void Exchange::send(Link link, const CallHeader& own, std::span<const std::byte> payload) {
  // Messages of both directions are alike, so they point to memory that could be written.
  add(link, true, own, {const_cast<std::byte*>(payload.data()), payload.size()});
}

void Exchange::receive(Link link, const CallHeader& own, std::span<std::byte> payload) {
  add(link, false, own, payload);
}

void Exchange::add(Link link, bool sends, const CallHeader& own, std::span<std::byte> payload) {
  for (const Message& m : messages_)
    check(m.link != link || m.sends != sends, "two messages to rank {} at once", index(link.peer));
  messages_.push_back({link, transport_.socket(link), sends, own, {}, payload});
}

std::array<iovec, 2> Exchange::Message::rest() {
  const auto header = bytes_of_header(sends ? own : theirs);
  const auto head = header.subspan(std::min(done, header.size()));
  const auto tail = payload.subspan(std::max(done, header.size()) - header.size());
  return {{{head.data(), head.size()}, {tail.data(), tail.size()}}};
}

bool Exchange::advance(Message& m) {
  std::array<iovec, 2> parts = m.rest();
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t moved = m.sends ? ::sendmsg(m.socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT)
                                : ::recvmsg(m.socket, &message, MSG_DONTWAIT);
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (moved <= 0) {
    broken_ = &m;
    return false;
  }
  const bool had_header = m.done >= sizeof m.own;
  m.done += static_cast<std::size_t>(moved);
  if (!m.sends && !had_header && m.done >= sizeof m.own)
    expect_(transport_.rank(), m.own, m.link.peer, m.theirs);
  return true;
}

bool Exchange::advance() {
  bool moved = false;
  for (Message& m : messages_) moved |= advance(m);
  if (moved) std::erase_if(messages_, [](const Message& m) { return m.done == m.size(); });
  return moved;
}

// Sleeps as soon as there is nothing to move: ranks share processors, and looking again and again
// keeps the one that is waited for from its own.
// A peer that closes may have said before that its call is another one, so what has come is read
// before a broken connection is an error.
void Exchange::wait() {
  const auto now = [] { return SteadyTime::clock::now(); };
  SteadyTime last = now();
  while (true) {
    broken_ = nullptr;
    const bool moved = advance();
    if (messages_.empty()) return;
    if (moved)
      last = now();
    else if (broken_ != nullptr)
      throw PeerGone(fmt::format("rank {} closed the connection", index(broken_->link.peer)));
    else
      sleep(last + transport_.timeout());
  }
}

void Exchange::sleep(SteadyTime deadline) const {
  std::vector<pollfd> sockets;
  for (const Message& m : messages_)
    sockets.push_back({m.socket, static_cast<short>(m.sends ? POLLOUT : POLLIN), 0});
  const int ready = ::poll(sockets.data(), sockets.size(), milliseconds_until(deadline));
  if (ready != 0 || SteadyTime::clock::now() < deadline) return;
  const auto silent = std::ranges::find_if(messages_, [](const Message& m) { return !m.sends; });
  const Message& missed = silent == messages_.end() ? messages_.front() : *silent;
  throw PeerError(fmt::format("rank {} did not answer within {:g} s", index(missed.link.peer),
                              in_seconds(transport_.timeout())));
}

}  // namespace trainyard
