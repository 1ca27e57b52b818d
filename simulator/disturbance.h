#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "core/config/job.h"
#include "core/mesh/mesh.h"
#include "core/random.h"
#include "simulator/stretch.h"

namespace trainyard {

// What happens to the kernels and the start of one rank.
class RankDisturbance {
 public:
  RankDisturbance(RankId rank, PhiloxKey jitter_key) : rank_(rank), jitter_key_(jitter_key) {}
  void add(const Fault& fault);

  Time late() const { return late_; }
  // End of kernel `instr`, which alone would take `work` ns from `start` on.
  std::int64_t end(std::int64_t start, std::int64_t work, std::uint32_t instr) const;

 private:
  struct Slow {
    Window window;
    double factor;
  };
  RankId rank_;
  PhiloxKey jitter_key_;
  Time late_;
  double sigma_ = 0;
  std::vector<Slow> slow_;
};

// The job's slow, late and jitter faults, by rank.
class Disturbances {
 public:
  Disturbances(const Job& job, const Mesh& mesh, const Placement& placement);
  // Null for a rank that nothing happens to.
  const RankDisturbance* of(RankId rank) const;
  bool any() const { return !by_rank_.empty(); }

 private:
  std::map<RankId, RankDisturbance> by_rank_;
};

}  // namespace trainyard
