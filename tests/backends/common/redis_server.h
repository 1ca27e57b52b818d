#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "backends/common/store.h"
#include "core/error.h"
#include "tests/temporary_folder.h"

namespace trainyard {

// A port of the loopback interface that was free a moment ago.
inline int free_port() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener, any, size) != 0 || ::getsockname(listener, any, &size) != 0)
    ADD_FAILURE() << "no free port";
  ::close(listener);
  return ntohs(address.sin_port);
}

// A redis-server process of the test's own, gone with it.
class RedisServer {
 public:
  RedisServer() : port_(free_port()) { start(); }
  ~RedisServer() { stop(); }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  bool installed() const { return installed_; }
  bool answers() const { return answers_; }
  std::string address() const { return "redis://127.0.0.1:" + std::to_string(port_); }

  void start() {
    const std::string port = std::to_string(port_), folder = folder_.path().string();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::execlp("redis-server", "redis-server", "--port", port.c_str(), "--bind", "127.0.0.1",
               "--dir", folder.c_str(), "--save", "", "--logfile", "log", nullptr);
      ::_exit(kNotFound);
    }
    int status = 0;
    for (int i = 0; i < 500 && !answers_; ++i) {
      if (::waitpid(pid_, &status, WNOHANG) != 0) {
        pid_ = 0;
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      try {
        answers_ = open_store(address(), "probe") != nullptr;
      } catch (const ConfigError&) {  // not yet
      }
    }
    installed_ = !WIFEXITED(status) || WEXITSTATUS(status) != kNotFound;
  }

  void stop() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    pid_ = 0;
    answers_ = false;
  }

 private:
  static constexpr int kNotFound = 127;  // as a shell says it
  TemporaryFolder folder_;
  int port_;
  pid_t pid_ = 0;
  bool installed_ = false, answers_ = false;
};

}  // namespace trainyard
