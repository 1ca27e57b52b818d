#include "backends/cpu/sockets.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <random>
#include <system_error>

#include "core/error.h"

namespace trainyard {
namespace {

constexpr int kWaitingConnections = 4096;
constexpr std::string_view kUnix = "unix:", kTcp = "tcp:";

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
};

[[noreturn]] void system_failure(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

Socket open_socket(int family) {
  const int fd = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) system_failure(errno, "socket");
  return Socket(fd);
}

// Small messages leave at once. Meaningless, so refused and ignored, on Unix sockets.
void leave_at_once(const Socket& socket) {
  const int yes = 1;
  ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

Address unix_address(std::string_view name) {
  Address out;
  auto* const address = reinterpret_cast<sockaddr_un*>(&out.bytes);
  check(name.size() < sizeof address->sun_path, "a Unix socket's name of {} bytes", name.size());
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path + 1, name.data(), name.size());  // a first 0: an abstract name
  out.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return out;
}

using Found = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;
Found find_host(const std::string& host, const char* port, int flags) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  const int code = ::getaddrinfo(host.c_str(), port, &hints, &found);
  if (code != 0) throw std::runtime_error(fmt::format("{}: {}", host, ::gai_strerror(code)));
  return {found, &::freeaddrinfo};
}

Address address_of_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  const Found found = find_host(name, nullptr, 0);
  Address out;
  out.size = found->ai_addrlen;
  std::memcpy(&out.bytes, found->ai_addr, found->ai_addrlen);
  return out;
}

Address address_of_interface(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) system_failure(errno, "getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  Address out;
  bool known = false;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_name != interface) continue;
    known = true;
    const int family = at->ifa_addr == nullptr ? AF_UNSPEC : at->ifa_addr->sa_family;
    if (family != AF_INET && (family != AF_INET6 || out.size > 0)) continue;
    out.size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&out.bytes, at->ifa_addr, out.size);
    if (family == AF_INET) break;  // rather than IPv6
  }
  if (!known) throw std::runtime_error("there is no such interface");
  if (out.size == 0) throw std::runtime_error("it has no IP address");
  return out;
}

void listen_at(const Socket& socket, Address& address) {
  if (::bind(socket.fd(), address.get(), address.size) != 0) system_failure(errno, "bind");
  if (::listen(socket.fd(), kWaitingConnections) != 0) system_failure(errno, "listen");
}

Listener listen_at_address(Address address) {
  Listener out;
  out.socket = open_socket(address.bytes.ss_family);
  listen_at(out.socket, address);
  address.size = sizeof address.bytes;
  if (::getsockname(out.socket.fd(), address.get(), &address.size) != 0)
    system_failure(errno, "getsockname");
  char host[NI_MAXHOST], port[NI_MAXSERV];
  const int code = ::getnameinfo(address.get(), address.size, host, sizeof host, port, sizeof port,
                                 NI_NUMERICHOST | NI_NUMERICSERV);
  if (code != 0) throw std::runtime_error(::gai_strerror(code));
  out.address = fmt::format("{}{} {}", kTcp, host, port);
  return out;
}

Address parse(const std::string& text) {
  if (text.starts_with(kUnix)) return unix_address(std::string_view(text).substr(kUnix.size()));
  const auto space = text.find(' ');
  check(text.starts_with(kTcp) && space != std::string::npos, "\"{}\" is no rank's address", text);
  const Found found = find_host(text.substr(kTcp.size(), space - kTcp.size()),
                                text.c_str() + space + 1, AI_NUMERICHOST | AI_NUMERICSERV);
  Address out;
  out.size = found->ai_addrlen;
  std::memcpy(&out.bytes, found->ai_addr, found->ai_addrlen);
  return out;
}

// Whether the socket is ready by then.
bool ready(const Socket& socket, short events, SteadyTime deadline) {
  pollfd one{socket.fd(), events, 0};
  int count = 0;
  do count = ::poll(&one, 1, milliseconds_until(deadline));
  while (count < 0 && errno == EINTR);
  return count > 0;
}

// Moves all bytes with `move(done)`, which answers as read() and write() do.
template <class Move>
bool move_whole(const Socket& socket, short events, std::size_t bytes, SteadyTime deadline,
                Move move) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t moved = move(done);
    if (moved > 0)
      done += static_cast<std::size_t>(moved);
    else if (moved == 0 || (errno != EAGAIN && errno != EINTR) || !ready(socket, events, deadline))
      return false;
  }
  return true;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

int milliseconds_until(SteadyTime deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
}

Listener listen_on_host() {
  std::random_device random;
  const std::string name = fmt::format("trainyard-{}-{:08x}{:08x}", ::getpid(), random(), random());
  Listener out{open_socket(AF_UNIX), std::string(kUnix) + name};
  Address address = unix_address(name);
  listen_at(out.socket, address);
  return out;
}

Listener listen_on_network(const std::string& interface) {
  try {
    return listen_at_address(interface.empty() ? address_of_name()
                                               : address_of_interface(interface));
  } catch (const std::exception& error) {
    throw ConfigError(fmt::format("network interface {} cannot be used: {}",
                                  interface.empty() ? "of the host's name" : interface,
                                  error.what()));
  }
}

Socket connect_to(const std::string& text, SteadyTime deadline) {
  Address address = parse(text);
  Socket out = open_socket(address.bytes.ss_family);
  leave_at_once(out);
  int error = ::connect(out.fd(), address.get(), address.size) == 0 ? 0 : errno;
  while (error == EAGAIN && SteadyTime::clock::now() < deadline) {  // a Unix listener's full queue
    ::usleep(1000);
    error = ::connect(out.fd(), address.get(), address.size) == 0 ? 0 : errno;
  }
  if (error == EINPROGRESS) {
    if (!ready(out, POLLOUT, deadline)) system_failure(ETIMEDOUT, "connect");
    socklen_t size = sizeof error;
    ::getsockopt(out.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0) system_failure(error == EAGAIN ? ETIMEDOUT : error, "connect");
  return out;
}

std::optional<Socket> accept_from(const Listener& listener, SteadyTime deadline) {
  while (ready(listener.socket, POLLIN, deadline)) {
    Socket out(::accept4(listener.socket.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (out.fd() < 0) {
      const int error = errno;
      if (error == EMFILE || error == ENFILE || error == ENOMEM) system_failure(error, "accept");
      continue;  // who came has gone
    }
    leave_at_once(out);
    return out;
  }
  return std::nullopt;
}

bool read_whole(const Socket& socket, void* data, std::size_t bytes, SteadyTime deadline) {
  return move_whole(socket, POLLIN, bytes, deadline, [&](std::size_t done) {
    return ::recv(socket.fd(), static_cast<char*>(data) + done, bytes - done, 0);
  });
}

bool write_whole(const Socket& socket, const void* data, std::size_t bytes, SteadyTime deadline) {
  return move_whole(socket, POLLOUT, bytes, deadline, [&](std::size_t done) {
    return ::send(socket.fd(), static_cast<const char*>(data) + done, bytes - done, MSG_NOSIGNAL);
  });
}

}  // namespace trainyard
