#include "tools/trainyard/fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace trainyard {
namespace {

using Rows = std::vector<std::size_t>;

constexpr double kFirstStep = 0.25, kLastStep = 0.01;  // of a constant's logarithm
constexpr double kZero = 1e-3;                         // where a constant of 0 starts to move
constexpr double kGain = 1e-6;                         // of the mean that makes a move worth it

double mean_residual(const FitRows& rows, const Rows& some, const Cluster& cluster) {
  double sum = 0;
  for (const std::size_t row : some) sum += std::abs(rows.residual(row, cluster));
  return sum / static_cast<double>(some.size());
}

double mean_error(const FitRows& rows, const Rows& some, const Cluster& cluster) {
  double sum = 0;
  for (const std::size_t row : some) sum += std::abs(std::exp(rows.residual(row, cluster)) - 1);
  return some.empty() ? 0 : sum / static_cast<double>(some.size());
}

// Moves a constant and those along with it, within bounds; what they were before.
std::vector<double> scale(const FitConstant& constant, double factor, Cluster& cluster) {
  double& value = constant.at(cluster);
  std::vector<double> before{value};
  value = std::clamp(std::max(value, kZero) * factor, constant.low, constant.high);
  for (const FitConstant& other : constant.along) {
    before.push_back(other.at(cluster));
    other.at(cluster) =
        std::clamp(before.back() * value / std::max(before[0], kZero), other.low, other.high);
  }
  return before;
}

// The constants after the search over `some` rows. Where two constants make up for each other, no
// move of one alone lowers a mean of absolute values although moving both would.
class Search {
 public:
  Search(Cluster cluster, const std::vector<FitConstant>& constants, const FitRows& rows,
         const Rows& some)
      : cluster_(std::move(cluster)), constants_(constants), rows_(rows), some_(some) {}

  Cluster run() {
    best_ = mean_residual(rows_, some_, cluster_);
    for (double step = kFirstStep; step >= kLastStep;)
      if (!move_one(step) && !move_two(step)) step /= 2;
    return cluster_;
  }

 private:
  // Whether the factor, and then whatever `also` moves, makes a better fit; else all is as before.
  template <typename Also>
  bool moved(const FitConstant& constant, double factor, Also also) {
    const std::vector<double> before = scale(constant, factor, cluster_);
    if (also()) return true;
    constant.at(cluster_) = before[0];
    for (std::size_t i = 1; i < before.size(); ++i) constant.along[i - 1].at(cluster_) = before[i];
    return false;
  }

  bool better() {
    const double now = mean_residual(rows_, some_, cluster_);
    if (now >= best_ - kGain) return false;
    best_ = now;
    return true;
  }

  bool move_one(double step) {
    bool any = false;
    for (const FitConstant& constant : constants_)
      any |= moved(constant, std::exp(step), [&] { return better(); }) ||
             moved(constant, std::exp(-step), [&] { return better(); });
    return any;
  }

  bool move_two(double step) {
    for (std::size_t i = 0; i < constants_.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        for (const auto& [first, second] : {std::pair{step, step}, std::pair{step, -step},
                                            std::pair{-step, step}, std::pair{-step, -step}})
          if (moved(constants_[i], std::exp(first), [&] {
                return moved(constants_[j], std::exp(second), [&] { return better(); });
              }))
            return true;
    return false;
  }

  Cluster cluster_;
  const std::vector<FitConstant>& constants_;
  const FitRows& rows_;
  const Rows& some_;
  double best_ = 0;
};

Cluster search(const Cluster& cluster, const std::vector<FitConstant>& constants,
               const FitRows& rows, const Rows& some) {
  return Search(cluster, constants, rows, some).run();
}

bool matters(const FitConstant& constant, const FitRows& rows, const Rows& all, Cluster cluster) {
  const double before = mean_residual(rows, all, cluster);
  for (const double factor : {1.3, 1 / 1.3}) {
    Cluster moved = cluster;
    scale(constant, factor, moved);
    if (std::abs(mean_residual(rows, all, moved) - before) > 1e-12) return true;
  }
  return false;
}

}  // namespace

Fitted fit(const Cluster& start, const std::vector<FitConstant>& constants, const FitRows& rows,
           std::size_t folds) {
  Fitted out;
  Rows all(rows.group.size());
  std::iota(all.begin(), all.end(), 0);
  out.before = mean_error(rows, all, start);
  std::vector<FitConstant> free;
  for (const FitConstant& constant : constants) {
    out.matters.push_back(matters(constant, rows, all, start));
    if (out.matters.back()) free.push_back(constant);
  }
  out.cluster = search(start, free, rows, all);
  out.after = mean_error(rows, all, out.cluster);
  for (std::size_t fold = 0; fold < folds; ++fold) {
    Rows seen, unseen;
    for (const std::size_t row : all)
      (rows.group[row] % folds == fold ? unseen : seen).push_back(row);
    if (seen.empty() || unseen.empty()) continue;
    out.held_out += mean_error(rows, unseen, search(start, free, rows, seen)) *
                    static_cast<double>(unseen.size());
  }
  out.held_out /= static_cast<double>(std::max<std::size_t>(1, all.size()));
  return out;
}

}  // namespace trainyard
