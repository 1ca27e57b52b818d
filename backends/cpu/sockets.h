#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace trainyard {

using SteadyTime = std::chrono::steady_clock::time_point;

// An open socket, closed with its owner.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

// Where other ranks find this one: a socket that they connect to, and its address as they need it.
struct Listener {
  Socket socket;
  std::string address;
};

// For ranks of the same host alone: no port, no network (Unix sockets, abstract names).
Listener listen_on_host();
// On a network interface; empty: the one that has the address of the host's name. Throws
// ConfigError with the system's reason.
Listener listen_on_network(const std::string& interface);

// Throws std::system_error; when the time is over, with ETIMEDOUT.
Socket connect_to(const std::string& address, SteadyTime deadline);
// The next that connects; nothing when nobody has by then.
std::optional<Socket> accept_from(const Listener& listener, SteadyTime deadline);

// Reads or writes `bytes` bytes as a whole; false when the peer closes, or is silent until then.
bool read_whole(const Socket& socket, void* data, std::size_t bytes, SteadyTime deadline);
bool write_whole(const Socket& socket, const void* data, std::size_t bytes, SteadyTime deadline);

// Milliseconds until then for poll(), at least 0, rounded up.
int milliseconds_until(SteadyTime deadline);

}  // namespace trainyard
