#pragma once
#include <poll.h>

#include <array>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/common/launch/child_process.h"
#include "backends/common/launch/output.h"
#include "backends/common/launcher.h"

namespace trainyard {

// One launch: starts the ranks, then waits for whatever happens first (a signal, an end, output, a
// clock) and acts on it, in one thread that never blocks anywhere else.
class Supervisor {
 public:
  explicit Supervisor(const LaunchOptions& options);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  int run();  // the exit code of launch()

 private:
  using Clock = std::chrono::steady_clock;
  enum Source { kOut, kErr, kSources };
  // Patience with ranks that are to end.
  enum class Phase { running, own_way, terminated, killed };

  struct Rank {
    std::unique_ptr<ChildProcess> process;
    std::array<LineCutter, kSources> cutters;
    std::array<bool, kSources> open{true, true};
    std::array<std::string, kSources> last_line;
    std::optional<Ending> ending;
    std::optional<Clock::time_point> stopped_since;
    bool stop_reported = false;
  };
  struct Failure {
    int rank;
    Clock::time_point time;
    std::string stopped;  // which others stood still then
  };

  void start();
  void step();
  void wait_for_events(std::vector<pollfd>& events);
  void take_signals();
  void take_ends();
  void end_rank(int rank);
  // Reads once from the rank's pipe; false at its end and when it has nothing for now.
  bool read_output(int rank, Source source);
  void forward(int rank, Source source, std::vector<std::string> lines);
  void look_for_stopped();
  void advance_phase();
  void signal_all(int signal);
  void say(const std::string& line);  // on standard error

  bool all_ended() const;
  bool only_stopped_are_left() const;  // who cannot end on their own
  bool drained() const;
  int fd_of(int rank, Source source) const;
  OutputQueue& queue_of(int rank, Source source);
  bool is_plain(int rank, Source source) const;
  std::string stopped_ranks() const;
  const Failure* first_failure() const;
  int conclude();

  const LaunchOptions& options_;
  sigset_t former_mask_{};
  int signal_fd_ = -1, ends_fd_ = -1;
  std::vector<Rank> ranks_;
  std::vector<OutputQueue> queues_;  // one for both streams if they are the same file
  RepeatedLines repeated_;
  std::vector<Failure> failures_;  // in order, up to the first signal from here
  int interrupted_by_ = 0;
  bool impatient_ = false;  // a second signal: output that nobody takes is lost
  Phase phase_ = Phase::running;
  Clock::time_point phase_end_, next_look_;
};

}  // namespace trainyard
