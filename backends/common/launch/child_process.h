#pragma once
#include <csignal>
#include <string>
#include <vector>

#include "backends/common/worker_place.h"

namespace trainyard {

// How a process ended.
struct Ending {
  int exit_code = 0;  // when signal is 0
  int signal = 0;
  bool failed() const { return signal != 0 || exit_code != 0; }
  std::string text() const;  // "exited with code 1", "was killed by signal 9 (SIGKILL)"
};

std::string signal_text(int signal);  // "signal 9 (SIGKILL)"

// Those that end a run. SIGHUP only if it is not ignored: nohup(1) means a run to go on.
sigset_t ending_signals();

// A running program in a process group of its own, without standard input, its output in pipes. It
// is killed with the thread that started it, and whatever it started with this object.
class ChildProcess {
 public:
  // Adds `variables` to this process's own; `mask`: the signals that the child is to block. Throws
  // ConfigError with the system's reason if the program cannot be run, std::runtime_error if there
  // is no room for another process.
  ChildProcess(const std::vector<std::string>& command, const Environment& variables,
               const sigset_t& mask);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  int pid() const { return pid_; }
  int ended_fd() const { return pidfd_; }  // readable once it has ended
  int out_fd() const { return out_; }      // its standard output and error; reads do not block
  int err_fd() const { return err_; }

  void signal(int signal) const;  // to all of its group
  bool is_stopped() const;        // by SIGSTOP or a debugger
  // After ended_fd() became readable; kills what is left of its group.
  Ending reap();

 private:
  void close_all();
  int pid_ = -1, pidfd_ = -1, out_ = -1, err_ = -1;
};

}  // namespace trainyard
