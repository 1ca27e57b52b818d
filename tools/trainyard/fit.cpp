#include "tools/trainyard/fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trainyard {
namespace {

using Rows = std::vector<std::size_t>;

constexpr double kFirstStep = 0.25, kLastStep = 0.01;  // of a constant's logarithm
constexpr double kZero = 1e-3;                         // where a constant of 0 starts to move

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

// The constants after the search over `some` rows.
Cluster search(Cluster cluster, const std::vector<FitConstant>& constants, const FitRows& rows,
               const Rows& some) {
  double best = mean_residual(rows, some, cluster);
  for (double step = kFirstStep; step >= kLastStep;) {
    bool better = false;
    for (const FitConstant& constant : constants)
      for (const double sign : {1.0, -1.0}) {
        double& value = constant.at(cluster);
        const double before = value;
        value = std::clamp(std::max(before, kZero) * std::exp(sign * step), constant.low,
                           constant.high);
        const double now = mean_residual(rows, some, cluster);
        if (now < best - 1e-9) {
          best = now, better = true;
          break;
        }
        value = before;
      }
    if (!better) step /= 2;
  }
  return cluster;
}

bool matters(const FitConstant& constant, const FitRows& rows, const Rows& all, Cluster cluster) {
  const double before = mean_residual(rows, all, cluster);
  for (const double factor : {1.3, 1 / 1.3}) {
    Cluster moved = cluster;
    constant.at(moved) = std::max(constant.at(moved), kZero) * factor;
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
    if (seen.empty()) continue;
    out.held_out += mean_error(rows, unseen, search(start, free, rows, seen)) *
                    static_cast<double>(unseen.size());
  }
  out.held_out /= static_cast<double>(std::max<std::size_t>(1, all.size()));
  return out;
}

}  // namespace trainyard
