#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace trainyard {

struct LaunchOptions {
  std::vector<std::string> command;  // program (a path, or a name on the PATH) and its arguments
  std::int32_t processes = 1;
  std::string store, run_id;  // what the workers read as TRAINYARD_STORE and TRAINYARD_RUN_ID
  // Rank 0's standard output is the launcher's, byte for byte, and no other rank's is in it; theirs
  // goes to standard error.
  bool rank0_stdout_plain = false;
  // How long the others may take to end on their own when one has failed, and again after SIGTERM.
  std::chrono::milliseconds grace{5000};
  std::chrono::milliseconds stopped_after{10'000};  // a rank stopped for longer is reported
};

// A worker that finds kSupervised among its variables ends with this code when it only noticed that
// another one has ended; it is never named as the cause if there is another.
inline constexpr int kPeerGoneCode = 3;
inline constexpr const char* kSupervised = "TRAINYARD_SUPERVISED";

// Runs `processes` workers of one program on this machine until all have ended, and forwards what
// they print line by line as "[rank 3] …"; among the first lines of standard error of all ranks one
// text is printed once. When a worker fails, or SIGINT, SIGTERM or SIGHUP arrives, the others end
// on their own, by SIGTERM or by SIGKILL, and one line on standard error names the rank that failed
// first and why. None outlives the launcher, even if that is killed.
// Returns the exit code: 0 all done, 1 the run failed, 2 the rank that failed first refused its
// input. Throws ConfigError if the program cannot be started, std::runtime_error if the system has
// no room for the processes. Call it in the main thread, before others are started.
int launch(const LaunchOptions& options);

}  // namespace trainyard
