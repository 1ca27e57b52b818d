#pragma once
#include <cstdint>
#include <string>

#include "core/config/job.h"

namespace trainyard {

// What a checkpoint keeps of the loss scale.
struct LossScale {
  double scale = 1;
  std::int64_t good_steps = 0;  // without overflow since the scale last changed

  bool operator==(const LossScale&) const = default;
};

// Dynamic loss scale of fp16 (Micikevicius et al., "Mixed Precision Training", arXiv 1710.03740,
// section 3.2): losses are multiplied by it so that small gradients do not vanish. A step whose
// gradients overflow on any rank is skipped by all of them; that `overflow` is the same everywhere
// is the caller's promise, and then so is the scale.
class LossScaler {
 public:
  // Largest scale reached by doubling, unless the run starts above it: NVIDIA apex's
  // max_loss_scale.
  static constexpr double kLargest = 0x1p24;

  explicit LossScaler(const Optimization& how) : LossScaler(how, {how.initial_loss_scale, 0}) {}
  // Goes on where a checkpoint was written.
  LossScaler(const Optimization& how, LossScale state);

  double scale() const { return state_.scale; }
  const LossScale& state() const { return state_; }

  // After each step: halves on overflow, but not below 1; doubles after loss_scale_window steps
  // without. Returns what is wrong when gradients overflow though the scale is 1 already: the run
  // must end. Empty: go on.
  [[nodiscard]] std::string update(bool overflow);

 private:
  LossScale state_;
  std::int64_t window_;
  double largest_;
};

}  // namespace trainyard
