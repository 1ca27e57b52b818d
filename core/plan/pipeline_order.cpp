#include "core/plan/pipeline_order.h"

#include <algorithm>

#include "core/error.h"

namespace trainyard {
namespace {

Pass pass(PassKind kind, std::int64_t micro_batch, std::int64_t chunk = 0) {
  return {kind, static_cast<std::uint16_t>(chunk), static_cast<std::int32_t>(micro_batch)};
}

std::vector<Unit> gpipe(std::int64_t m) {
  std::vector<Unit> units;
  for (std::int64_t i = 0; i < m; ++i) units.push_back({pass(PassKind::forward, i)});
  for (std::int64_t i = 0; i < m; ++i) units.push_back({pass(PassKind::backward, i)});
  return units;
}

std::vector<Unit> one_f_one_b(std::int64_t m, std::int64_t warm_up) {
  std::vector<Unit> units;
  std::int64_t f = 0, b = 0;
  while (f < std::min(m, warm_up)) units.push_back({pass(PassKind::forward, f++)});
  while (f < m) {
    units.push_back({pass(PassKind::forward, f++)});
    units.push_back({pass(PassKind::backward, b++)});
  }
  while (b < m) units.push_back({pass(PassKind::backward, b++)});
  return units;
}

// 1F1B whose weight gradients lag `lag` micro-batches behind, so that a stage holds the activations
// of `warm_up + lag` micro-batches and the lagging ones fill the drain.
std::vector<Unit> zero_bubble(std::int64_t m, std::int64_t warm_up, std::int64_t lag) {
  std::vector<Unit> units;
  std::int64_t f = 0, b = 0, w = 0;
  while (f < std::min(m, warm_up)) units.push_back({pass(PassKind::forward, f++)});
  while (b < m) {
    units.push_back({pass(PassKind::backward, b++)});
    if (b - w > lag) units.push_back({pass(PassKind::weight_grad, w++)});
    if (f < m) units.push_back({pass(PassKind::forward, f++)});
  }
  while (w < m) units.push_back({pass(PassKind::weight_grad, w++)});
  return units;
}

// ZB-H2: warm-up forwards bridge the time until the first backward comes back, so that a stage has
// a pass to run at any time from its first to its last. The first forward reaches the last stage
// after p - 1 others, and then it computes without a pause: no order ends a step earlier. With
// fewer than 2 p - 1 micro-batches stages wait for backwards, and weight gradients that could lag
// further run meanwhile.
std::vector<Unit> zb_h2(std::int64_t m, std::int64_t stages, std::int64_t stage) {
  const std::int64_t warm_up = std::min(m, 2 * (stages - stage) - 1);
  return zero_bubble(m, warm_up, std::min(2 * stage, m - warm_up));
}

std::vector<Unit> interleaved(const PipelineShape& s, std::int32_t stage) {
  check(s.micro_batches % s.stages == 0, "{} micro-batches on {} interleaved stages",
        s.micro_batches, s.stages);
  const std::int64_t p = s.stages, v = s.virtual_stages, total = s.micro_batches * v;
  const auto chunk = [&](std::int64_t k) { return k % (p * v) / p; };
  const auto micro_batch = [&](std::int64_t k) { return k / (p * v) * p + k % p; };
  const auto forward = [&](std::int64_t k) {
    return pass(PassKind::forward, micro_batch(k), chunk(k));
  };
  const auto backward = [&](std::int64_t k) {
    return pass(PassKind::backward, micro_batch(k), v - 1 - chunk(k));
  };
  const std::int64_t warm_up = std::min(total, (p - stage - 1) * 2 + (v - 1) * p);
  std::vector<Unit> units;
  std::int64_t f = 0, b = 0;
  while (f < warm_up) units.push_back({forward(f++)});
  while (f < total) units.push_back({forward(f++), backward(b++)});
  while (b < total) units.push_back({backward(b++)});
  return units;
}

}  // namespace

std::vector<Unit> pipeline_order(const PipelineShape& shape, std::int32_t stage) {
  switch (shape.order) {
    case Order::gpipe:
      return gpipe(shape.micro_batches);
    case Order::one_f_one_b:
      return one_f_one_b(shape.micro_batches, shape.stages - stage - 1);
    case Order::interleaved_1f1b:
      return interleaved(shape, stage);
    case Order::zb_h1:
      return zero_bubble(shape.micro_batches, shape.stages - stage, stage);
    case Order::zb_2p:
      return zb_h2(shape.micro_batches, shape.stages, stage);
  }
  throw InternalError("unknown pipeline order");
}

bool has_weight_grad_passes(Order order) { return order == Order::zb_h1 || order == Order::zb_2p; }

}  // namespace trainyard
