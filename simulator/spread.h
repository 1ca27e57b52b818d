#pragma once
#include <cstdint>

namespace trainyard {

// Expected slowest of `gpus` GPUs relative to the mean one, when their kernel times are normal with
// relative standard deviation `spread`: 1 + spread * Phi^-1((n - 0.375) / (n + 0.25)) (Blom 1958).
// Tensor groups, stages and replicas wait for one another, so the slowest GPU sets the pace.
double expected_slowest(double spread, std::int64_t gpus);

}  // namespace trainyard
