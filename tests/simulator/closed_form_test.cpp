#include <gtest/gtest.h>

#include "core/plan/plan.h"
#include "tests/core/plan/jobs.h"
#include "tests/simulator/hand_built.h"

namespace trainyard {
namespace {

// Only the passes take time, as measured: a stage's forward 8 ms, its backward 16 ms.
class Free final : public Costs {
 public:
  Time kernel(const KernelSpec&) const override { return {}; }
  Time collective(Op, const GroupShape&, Bytes) const override { return {}; }
  Time transfer(Bytes, const Route&) const override { return {}; }
};

Job pipeline_job(std::int32_t stages, std::int32_t micro_batches, std::int32_t chunks) {
  Job job = small_job(1, stages, 1, micro_batches);
  job.model.layers = stages * chunks;
  job.parallel.virtual_stages = chunks;
  job.schedule.pipeline = chunks > 1 ? Order::interleaved_1f1b : Order::one_f_one_b;
  job.schedule.overlap.pipeline = true;
  job.measured.forward_ms = {8};
  job.measured.backward_ms = {16};
  return job;
}

SimulationResult step(const Job& job) { return execute(job, plan(job), {}, Free()); }

// All pipelines of 2, 4 and 8 stages that a schedule with chunks is defined for.
struct Shape {
  int p, m, v;
};
std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const int p : {2, 4, 8})
    for (const int m : {p, 2 * p, 4 * p})
      for (const int v : {1, 2, 4}) all.push_back({p, m, v});
  return all;
}

// Narayanan et al. (arXiv 2104.04473, section 2.2): with p stages of v chunks and m micro-batches
// the pipeline idles (p - 1)(F + B) / v of an ideal m (F + B).
Time ideal_time(const Shape& shape) {
  return microseconds(24e3 * shape.m) + microseconds(24e3 * (shape.p - 1)) / shape.v;
}

TEST(ClosedForm, BubbleOfEqualStagesIsTheIdealOne) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(testing::Message() << shape.p << " " << shape.m << " " << shape.v);
    const auto result = step(pipeline_job(shape.p, shape.m, shape.v));
    EXPECT_EQ(result.iteration, ideal_time(shape));
    EXPECT_EQ(part(result, Cause::compute), 24'000'000LL * shape.m);
    EXPECT_EQ(part(result, Cause::bubble), 24'000'000LL * (shape.p - 1) / shape.v);
  }
}

TEST(ClosedForm, GroupedTransfersThatTakeNoTimeAddNoBubble) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(testing::Message() << shape.p << " " << shape.m << " " << shape.v);
    Job job = pipeline_job(shape.p, shape.m, shape.v);
    job.schedule.overlap.pipeline = false;
    EXPECT_EQ(step(job).iteration, ideal_time(shape));
  }
}

TEST(ClosedForm, GPipeIdlesLikeOneFOneB) {
  for (const int p : {2, 4, 8}) {
    Job job = pipeline_job(p, 2 * p, 1);
    job.schedule.pipeline = Order::gpipe;
    const auto result = step(job);
    EXPECT_EQ(result.iteration, microseconds(24e3 * (3 * p - 1)));
    EXPECT_EQ(part(result, Cause::bubble), 24'000'000LL * (p - 1));
  }
}

Job zero_bubble_job(Order order, int p, int m, double weight_grad_ms) {
  Job job = pipeline_job(p, m, 1);
  job.schedule.pipeline = order;
  job.measured.backward_ms = {16 - weight_grad_ms};
  job.measured.weight_grad_ms = {weight_grad_ms};
  return job;
}

// Qi et al. (arXiv 2401.10241, section 2.3): ZB-H1 idles (p - 1)(F + B - W), here 8 ms a stage.
TEST(ClosedForm, ZeroBubbleIdlesAThirdOfOneFOneB) {
  for (const int p : {2, 4, 8}) {
    const auto result = step(zero_bubble_job(Order::zb_h1, p, 2 * p, 8));
    EXPECT_EQ(result.iteration, microseconds(24e3 * 2 * p + 8e3 * (p - 1)));
    EXPECT_EQ(part(result, Cause::compute), 24'000'000LL * 2 * p);
  }
}

// A step starts when the one before has ended on all stages, so the last stage idles (p - 1) F
// while the first forward is on its way, with any order; ZB-H2 adds nothing to that (section 2.2),
// also where backwards (10 ms) are longer than weight gradients (6 ms) and ZB-H1 idles (p - 1) 12
// ms.
TEST(ClosedForm, ZeroBubbleWithTwiceTheMemoryOnlyFills) {
  for (const int p : {2, 4, 8})
    for (const double w : {8.0, 6.0}) {
      const auto of = [&](Order order) { return step(zero_bubble_job(order, p, 4 * p, w)); };
      const auto result = of(Order::zb_2p);
      EXPECT_EQ(result.iteration, microseconds(24e3 * 4 * p + 8e3 * (p - 1)));
      EXPECT_EQ(part(result, Cause::bubble), 8'000'000LL * (p - 1));
      EXPECT_EQ(of(Order::zb_h1).iteration,
                result.iteration + microseconds(1e3 * (p - 1) * 2 * (8 - w)));
    }
}

// With stages of almost one length the critical path runs through many of them. ZB-2p of 16 stages
// was told to be 64 % bubble, where each stage idles 9 %: whatever the path, the stage that bounds
// the step computes its own passes, and only the rest of the step is its bubble.
TEST(ClosedForm, WhatTheBoundingStageComputesIsNoBubble) {
  for (const Order order :
       {Order::one_f_one_b, Order::interleaved_1f1b, Order::zb_h1, Order::zb_2p}) {
    Job job = pipeline_job(4, 16, order == Order::interleaved_1f1b ? 2 : 1);
    job.schedule.pipeline = order;
    job.measured.forward_ms = {8, 9, 8.5, 9};
    job.measured.backward_ms = {9, 8, 8.5, 8};
    job.measured.weight_grad_ms = {7, 7, 7, 7};
    const auto result = step(job);
    const Time busy = result.stage_busy[static_cast<std::size_t>(result.bounding_stage)];
    EXPECT_EQ(part(result, Cause::compute), busy.value) << static_cast<int>(order);
    EXPECT_EQ(part(result, Cause::bubble), (result.iteration - busy).value);
  }
}

}  // namespace
}  // namespace trainyard
