#include "simulator/disturbance.h"

#include <cmath>

namespace trainyard {

void RankDisturbance::add(const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::slow: {
      const bool forever = fault.lasts >= kNever - fault.at;
      slow_.push_back(
          {{fault.at.value, (forever ? kNever : fault.at + fault.lasts).value}, fault.factor});
      break;
    }
    case Fault::Kind::late:
      late_ += fault.at;
      break;
    case Fault::Kind::jitter:
      sigma_ = std::hypot(sigma_, fault.sigma);
      break;
  }
}

std::int64_t RankDisturbance::end(std::int64_t start, std::int64_t work,
                                  std::uint32_t instr) const {
  if (sigma_ > 0) {
    const auto index_of_draw = static_cast<std::uint64_t>(index(rank_)) << 32 | instr;
    const double draw = std::abs(random_normal(jitter_key_, index_of_draw));
    work += static_cast<std::int64_t>(static_cast<double>(work) * sigma_ * draw + 0.5);
  }
  std::int64_t end = start + work;
  for (const Slow& slow : slow_) end = stretch(start, end - start, slow.window, slow.factor);
  return end;
}

Disturbances::Disturbances(const Job& job, const Mesh& mesh, const Placement& placement) {
  const PhiloxKey key = random_key(job.seed, "jitter");
  for (const Fault& fault : job.faults) {
    for (std::int32_t r = 0; r < mesh.size(); ++r) {
      const RankId rank{r};
      const bool everyone = fault.rank < 0 && fault.node < 0;
      if (everyone || fault.rank == r ||
          (fault.node >= 0 && placement.node(rank) == NodeId(fault.node)))
        by_rank_.try_emplace(rank, rank, key).first->second.add(fault);
    }
  }
}

const RankDisturbance* Disturbances::of(RankId rank) const {
  const auto found = by_rank_.find(rank);
  return found == by_rank_.end() ? nullptr : &found->second;
}

}  // namespace trainyard
