#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simulator/crossing.h"
#include "simulator/island.h"
#include "simulator/scene.h"
#include "simulator/traffic.h"

namespace trainyard {

// Runs all islands in rounds: every island goes on by itself until it needs a crossing (in
// parallel), then the crossings that all members have reached are ended (one after another). When
// none can go on and flows are on the way, the network goes to where the next of them end. The
// result does not depend on the number of threads or on the order of islands.
class Executor {
 public:
  Executor(const Job& job, const Scene& scene, const Costs& costs, int threads);
  void run();

  bool finished() const;
  const Crossings& crossings() const { return crossings_; }
  std::optional<NetworkUse> network_use(Time whole) const {
    return traffic_ ? traffic_->use(whole) : std::nullopt;
  }
  std::optional<NetworkFailure> network_failure() const {
    return traffic_ ? traffic_->failure() : std::nullopt;
  }
  TransferEnds& transfer_ends() { return transfer_ends_; }
  const TransferEnds& transfer_ends() const { return transfer_ends_; }
  const std::vector<std::unique_ptr<Island>>& islands() const { return islands_; }

 private:
  bool meet();
  void wake(std::int32_t island);
  void wake_sharing(std::int32_t island);
  void land();

  const Scene& scene_;
  int threads_;
  Crossings crossings_;
  TransferEnds transfer_ends_;
  std::optional<Traffic> traffic_;   // flows that meet, if the network model has such
  std::vector<std::int32_t> awake_;  // islands that may go on
  std::vector<bool> is_awake_;
  std::vector<std::int32_t> met_;  // one island of each context group that has met
  std::vector<Landing> landed_;
  std::vector<std::unique_ptr<Island>> islands_;
};

// Every blocked instruction and whom it waits for, a line each, at most about 40 and then a count.
std::string stuck_report(const Scene& scene, const Executor& executor);

}  // namespace trainyard
