#include "tests/cuda_on_host/nccl_links.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace trainyard::cuda_on_host {
namespace {

struct Address {
  explicit Address(const std::string& name) {
    value.sun_family = AF_UNIX;
    std::memcpy(value.sun_path + 1, name.data(), std::min(name.size(), sizeof value.sun_path - 1));
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&value); }
  sockaddr_un value{};
  socklen_t length;
};

std::string member_name(const std::string& communicator, int rank) {
  return communicator + "#" + std::to_string(rank);
}

int open_socket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

// One direction of a socket in an exchange.
struct Links::End {
  int socket;
  short events;  // POLLIN or POLLOUT
  std::byte* at;
  std::size_t left;
};

Links::Links(std::string name, int rank, int size)
    : name_(std::move(name)), rank_(rank), sockets_(static_cast<std::size_t>(size), -1) {
  if (pipe2(abort_pipe_, O_CLOEXEC | O_NONBLOCK) != 0) throw std::runtime_error("no pipe");
}

Links::~Links() {
  for (const int socket : sockets_)
    if (socket >= 0) close(socket);
  close(abort_pipe_[0]);
  close(abort_pipe_[1]);
}

int Links::listen() const {
  Address address(member_name(name_, rank_));
  const int socket = open_socket();
  if (bind(socket, address.get(), address.length) != 0 || ::listen(socket, size()) != 0) {
    close(socket);
    throw LinkError(ncclSystemError, "the name of a communicator is taken");
  }
  return socket;
}

void Links::rest_or_throw(int milliseconds) const {
  pollfd ending{abort_pipe_[0], POLLIN, 0};
  poll(&ending, 1, milliseconds);
  if (aborted_) throw Aborted{};
}

int Links::connect_to(int peer) const {
  Address address(member_name(name_, peer));
  for (;;) {
    const int socket = open_socket();
    if (::connect(socket, address.get(), address.length) == 0) return socket;
    close(socket);
    rest_or_throw(2);
  }
}

void Links::connect() {
  const int listener = listen();
  try {
    for (int peer = 0; peer < rank_; ++peer) {
      const int socket = connect_to(peer);
      sockets_[static_cast<std::size_t>(peer)] = socket;
      std::int32_t own = rank_;
      End hello{socket, POLLOUT, bytes_of(own).data(), sizeof own};
      move(std::span(&hello, 1));
    }
    for (int missing = size() - 1 - rank_; missing > 0;) {
      const int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (socket < 0) {
        rest_or_throw(2);
        continue;
      }
      std::int32_t peer = 0;
      End hello{socket, POLLIN, bytes_of(peer).data(), sizeof peer};
      move(std::span(&hello, 1));
      sockets_.at(static_cast<std::size_t>(peer)) = socket;
      --missing;
    }
  } catch (...) {
    close(listener);
    throw;
  }
  close(listener);
}

// Moves all bytes of all ends, whichever can.
void Links::move(std::span<End> ends) {
  for (;;) {
    std::vector<pollfd> waiting{{abort_pipe_[0], POLLIN, 0}};
    std::vector<End*> who{nullptr};
    for (End& end : ends) {
      if (end.left == 0) continue;
      waiting.push_back({end.socket, end.events, 0});
      who.push_back(&end);
    }
    if (who.size() == 1) return;
    poll(waiting.data(), waiting.size(), -1);
    if (aborted_) throw Aborted{};
    for (std::size_t i = 1; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      End& end = *who[i];
      const ssize_t moved = end.events == POLLIN
                                ? recv(end.socket, end.at, end.left, 0)
                                : ::send(end.socket, end.at, end.left, MSG_NOSIGNAL);
      if (moved < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (moved <= 0) throw LinkError(ncclRemoteError, "a peer has closed its connection");
      end.at += moved;
      end.left -= static_cast<std::size_t>(moved);
    }
  }
}

void Links::exchange(std::span<const Part> parts, std::span<const Space> spaces) {
  std::vector<End> ends;
  for (std::size_t m = 0; m < sockets_.size(); ++m) {
    if (sockets_[m] < 0) continue;
    ends.push_back(
        {sockets_[m], POLLOUT, const_cast<std::byte*>(parts[m].data()), parts[m].size()});
    ends.push_back({sockets_[m], POLLIN, spaces[m].data(), spaces[m].size()});
  }
  move(ends);
}

void Links::agree(CallName call) {
  std::vector<CallName> said(sockets_.size());
  std::vector<Space> spaces;
  for (CallName& one : said) spaces.push_back(bytes_of(one));
  exchange(std::vector<Part>(sockets_.size(), bytes_of(call)), spaces);
  for (std::size_t m = 0; m < said.size(); ++m)
    if (static_cast<int>(m) != rank_ && said[m] != call)
      throw LinkError(ncclInternalError, "members make different calls: a GPU would hang here");
}

void Links::send(int peer, CallName call, Part message) {
  const int socket = sockets_.at(static_cast<std::size_t>(peer));
  std::byte begun{};
  std::array<End, 3> ends{
      End{socket, POLLOUT, bytes_of(call).data(), sizeof call},
      End{socket, POLLOUT, const_cast<std::byte*>(message.data()), message.size()},
      End{socket, POLLIN, &begun, 1}};
  for (End& end : ends) move(std::span(&end, 1));
}

void Links::receive(int peer, CallName call, Space message) {
  const int socket = sockets_.at(static_cast<std::size_t>(peer));
  CallName said;
  std::byte begun{};
  std::array<End, 3> ends{End{socket, POLLIN, bytes_of(said).data(), sizeof said},
                          End{socket, POLLOUT, &begun, 1},
                          End{socket, POLLIN, message.data(), message.size()}};
  move(std::span(ends).first(1));
  if (said != call) throw LinkError(ncclInternalError, "a send and its receive differ");
  for (End& end : std::span(ends).subspan(1)) move(std::span(&end, 1));
}

void Links::fail(ncclResult_t result, const std::string& text) {
  const std::lock_guard lock(problem_mutex_);
  problem_ = text;
  state_ = result;
}

std::string Links::problem() const {
  const std::lock_guard lock(problem_mutex_);
  return problem_;
}

void Links::abort() {
  aborted_ = true;
  const char byte = 0;
  if (write(abort_pipe_[1], &byte, 1) < 0) return;
}

void Links::wait_for_abort() const {
  pollfd ending{abort_pipe_[0], POLLIN, 0};
  while (!aborted_) poll(&ending, 1, -1);
}

}  // namespace trainyard::cuda_on_host
