#pragma once
#include "tools/trainyard/run.h"

namespace trainyard {

inline constexpr int kIntervalDraws = 1000;

// The 80 % interval of a step from `draws` seeded draws of what costs really are: residuals of the
// kernel and collective models, machines, network. The programs stay: the step answers to slower
// kernels by the critical path and to a slower or faster network by simulating it so, undisturbed
// and on the closed-form network. `other` is the relative standard deviation of what costs do not
// cover. Where costs were measured on the machine itself nothing is drawn: low = high.
Interval step_interval(const PlannedJob& planned, const SimulationResult& result, int draws,
                       double other);

}  // namespace trainyard
