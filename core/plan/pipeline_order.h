#pragma once
#include <cstdint>
#include <vector>

#include "core/config/job.h"
#include "core/program/program.h"

namespace trainyard {

// Passes that belong together: transfers happen between units when sends and receives are not
// decoupled. Interleaved 1F1B has units of one forward and one backward in its steady state.
using Unit = std::vector<Pass>;

struct PipelineShape {
  Order order = Order::one_f_one_b;
  std::int32_t stages = 1, virtual_stages = 1;
  std::int64_t micro_batches = 1;
};

// What `stage` computes in one step, in order. Sources: GPipe (arXiv 1811.06965), 1F1B and its
// interleaved form (arXiv 2104.04473 section 2.2), ZB-H1 and ZB-H2 (arXiv 2401.10241 sections 2.1
// and 2.2). Interleaving needs micro_batches % stages == 0.
std::vector<Unit> pipeline_order(const PipelineShape& shape, std::int32_t stage);

// Whether weight gradients are passes of their own, behind the backward pass of their micro-batch.
bool has_weight_grad_passes(Order order);

}  // namespace trainyard
