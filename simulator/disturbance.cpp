#include "simulator/disturbance.h"

#include <cmath>
#include <initializer_list>

namespace trainyard {
namespace {

double polynomial(std::initializer_list<double> coefficients, double x) {  // highest power first
  double sum = 0;
  for (const double c : coefficients) sum = sum * x + c;
  return sum;
}

// |N(0, 1)| from a uniform number by inversion, several times as fast as by Box and Muller.
// Relative error below 2e-9 (P. J. Acklam, "An algorithm for computing the inverse normal
// cumulative distribution function", 2003).
double half_normal(double uniform) {
  const double p = 0.5 + uniform / 2;
  constexpr double kTail = 0.97575;
  if (p <= kTail) {
    const double q = p - 0.5, r = q * q;
    return q *
           polynomial({-39.69683028665376, 220.9460984245205, -275.9285104469687, 138.3577518672690,
                       -30.66479806614716, 2.506628277459239},
                      r) /
           polynomial({-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972,
                       -13.28068155288572, 1},
                      r);
  }
  const double q = std::sqrt(-2 * std::log(1 - p));
  return -polynomial({-0.007784894002430293, -0.3223964580411365, -2.400758277161838,
                      -2.549732539343734, 4.374664141464968, 2.938163982698783},
                     q) /
         polynomial(
             {0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416, 1},
             q);
}

}  // namespace

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
    default:
      break;  // Traffic's
  }
}

std::int64_t RankDisturbance::end(std::int64_t start, std::int64_t work,
                                  std::uint32_t instr) const {
  if (sigma_ > 0) {
    const auto index_of_draw = static_cast<std::uint64_t>(index(rank_)) << 32 | instr;
    const double draw = half_normal(to_uniform(philox(jitter_key_, index_of_draw)[0]));
    work += static_cast<std::int64_t>(static_cast<double>(work) * sigma_ * draw + 0.5);
  }
  std::int64_t end = start + work;
  for (const Slow& slow : slow_) end = stretch(start, end - start, slow.window, slow.factor);
  return end;
}

Disturbances::Disturbances(const Job& job, const Mesh& mesh, const Placement& placement) {
  const PhiloxKey key = random_key(job.seed, "jitter");
  for (const Fault& fault : job.faults) {
    if (fault.of_fabric()) continue;
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
