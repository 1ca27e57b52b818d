#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "core/config/job.h"

namespace trainyard {

// A constant of a cluster's profile that a fit may move, always within its bounds.
struct FitConstant {
  std::string key;  // of scenario files
  std::function<double&(Cluster&)> at;
  double low, high;
  std::vector<FitConstant> along = {};  // moved by the same factor
};

// Measurements to fit to: each belongs to a group (a shape) that is never divided between rows a
// fit sees and rows it is judged by.
struct FitRows {
  std::vector<std::size_t> group;
  // log(predicted / measured) of a row under the profile of `cluster`.
  std::function<double(std::size_t row, const Cluster& cluster)> residual;
};

struct Fitted {
  Cluster cluster;
  std::vector<bool> matters;     // by constant: whether any row depends on it
  double before = 0, after = 0;  // mean |predicted / measured - 1| over all rows
  double held_out = 0;           // the same, each row under constants fitted without its group
};

// Moves the constants, one at a time and then two, by shrinking factors, while the mean |residual|
// falls (compass search in logarithms); then again `folds` times without every folds-th group. No
// draw is involved: equal rows give equal constants.
Fitted fit(const Cluster& start, const std::vector<FitConstant>& constants, const FitRows& rows,
           std::size_t folds);

}  // namespace trainyard
