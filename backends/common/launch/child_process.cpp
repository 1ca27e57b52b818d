#include "backends/common/launch/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "core/error.h"

namespace trainyard {
namespace {

[[noreturn]] void no_room(const char* what) {
  throw std::runtime_error(fmt::format("cannot {} for another rank: {}", what, strerror(errno)));
}

// A pipe whose ends no other child inherits.
struct Pipe {
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) no_room("open a pipe");
  }
  ~Pipe() {
    for (const int fd : ends)
      if (fd >= 0) close(fd);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int take(std::size_t end) { return std::exchange(ends[end], -1); }

  std::array<int, 2> ends{-1, -1};
};

// The strings as execve() takes them.
std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

// Everything that the child needs, laid out before fork(): after it, another thread's lock on the
// heap may be held for ever.
struct Launch {
  std::vector<std::string> command, variables;
  std::vector<char*> argv, envp;
  Pipe out, err, failure;
  int parent = getpid();
  sigset_t mask{};
};

[[noreturn]] void become_program(Launch& launch) {
  const int nothing = open("/dev/null", O_RDONLY);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launch.parent) _exit(127);  // it ended before it could be watched
  dup2(nothing, STDIN_FILENO);
  dup2(launch.out.ends[1], STDOUT_FILENO);
  dup2(launch.err.ends[1], STDERR_FILENO);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) std::signal(signal, SIG_DFL);
  sigprocmask(SIG_SETMASK, &launch.mask, nullptr);
  execvpe(launch.argv[0], launch.argv.data(), launch.envp.data());
  const int error = errno;
  if (write(launch.failure.ends[1], &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

}  // namespace

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  return fmt::format("signal {} ({}{})", signal, name == nullptr ? "" : "SIG",
                     name == nullptr ? "real-time" : name);
}

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  struct sigaction hangup {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
    sigaddset(&set, SIGHUP);
  return set;
}

std::string Ending::text() const {
  if (signal != 0) return "was killed by " + signal_text(signal);
  return fmt::format("exited with code {}", exit_code);
}

ChildProcess::ChildProcess(const std::vector<std::string>& command, const Environment& variables,
                           const sigset_t& mask) {
  check(!command.empty(), "no program to start");
  Environment environment = process_environment();
  for (const auto& [name, value] : variables) environment[name] = value;
  Launch launch;
  launch.command = command;
  launch.mask = mask;
  for (const auto& [name, value] : environment) launch.variables.push_back(name + "=" + value);
  launch.argv = pointers(launch.command);
  launch.envp = pointers(launch.variables);
  pid_ = fork();
  if (pid_ == 0) become_program(launch);
  if (pid_ < 0) no_room("start a process");
  setpgid(pid_, pid_);  // here too: whoever comes first, signals reach the group
  close(launch.failure.take(1));
  int error = 0;
  if (read(launch.failure.ends[0], &error, sizeof error) == sizeof error) {
    waitpid(pid_, nullptr, 0);
    throw ConfigError(
        fmt::format("program \"{}\" cannot be started: {}", command.front(), strerror(error)));
  }
  out_ = launch.out.take(0);
  err_ = launch.err.take(0);
  for (const int fd : {out_, err_}) fcntl(fd, F_SETFL, O_NONBLOCK);
  pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));  // glibc 2.36 has it for C alone
  if (pidfd_ < 0) {
    const int reason = errno;
    signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
    close_all();
    errno = reason;
    no_room("open a process descriptor");
  }
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close_all();
}

void ChildProcess::close_all() {
  for (int* fd : {&pidfd_, &out_, &err_})
    if (*fd >= 0) close(std::exchange(*fd, -1));
}

void ChildProcess::signal(int signal) const { kill(-pid_, signal); }

bool ChildProcess::is_stopped() const {
  std::ifstream file(fmt::format("/proc/{}/stat", pid_));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');  // proc(5): pid (name) state …
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return false;
  const char state = text[name_end + 2];
  return state == 'T' || state == 't';
}

Ending ChildProcess::reap() {
  signal(SIGKILL);  // before the wait: until then no other process can have its number
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status)};
  return {.exit_code = WEXITSTATUS(status)};
}

}  // namespace trainyard
