#pragma once
#include <memory>
#include <string>
#include <vector>

#include "simulator/crossing.h"
#include "simulator/island.h"
#include "simulator/scene.h"

namespace trainyard {

// Runs all islands in rounds: every island goes on by itself until it needs a crossing (in
// parallel), then the crossings that all members have reached are ended (one after another). The
// result does not depend on the number of threads or on the order of islands.
class Executor {
 public:
  Executor(const Scene& scene, int threads);
  void run();

  bool finished() const;
  const Crossings& crossings() const { return crossings_; }
  const std::vector<std::unique_ptr<Island>>& islands() const { return islands_; }

 private:
  const Scene& scene_;
  int threads_;
  Crossings crossings_;
  std::vector<std::unique_ptr<Island>> islands_;
};

// Every blocked instruction and whom it waits for, a line each, at most about 40 and then a count.
std::string stuck_report(const Scene& scene, const Executor& executor);

}  // namespace trainyard
