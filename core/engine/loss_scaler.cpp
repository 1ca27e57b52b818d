#include "core/engine/loss_scaler.h"

#include <algorithm>

#include "core/error.h"

namespace trainyard {

LossScaler::LossScaler(const Optimization& how, LossScale state)
    : state_(state),
      window_(how.loss_scale_window),
      largest_(std::max(kLargest, how.initial_loss_scale)) {
  check(state.scale >= 1 && state.good_steps >= 0, "loss scale {} after {} good steps", state.scale,
        state.good_steps);
}

std::string LossScaler::update(bool overflow) {
  if (overflow) {
    if (state_.scale <= 1)
      return "training diverges: gradients overflow fp16 even at a loss scale of 1; lower "
             "training.learning_rate or use bf16";
    state_ = {std::max(state_.scale / 2, 1.0), 0};
  } else if (++state_.good_steps >= window_) {
    state_ = {std::min(state_.scale * 2, std::max(largest_, state_.scale)), 0};
  }
  return {};
}

}  // namespace trainyard
