#include "core/plan/pipeline_order.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace trainyard {
namespace {

// "F0 F1 | B0": passes with micro-batch, or micro-batch.chunk when there are several chunks; units
// of more than one pass in brackets.
std::string text(const PipelineShape& shape, std::int32_t stage) {
  std::string out;
  for (const Unit& unit : pipeline_order(shape, stage)) {
    std::string cell;
    for (const Pass& pass : unit) {
      const char kind = pass.kind == PassKind::forward    ? 'F'
                        : pass.kind == PassKind::backward ? 'B'
                                                          : 'W';
      if (!cell.empty()) cell += ' ';
      cell += shape.virtual_stages > 1 ? fmt::format("{}{}.{}", kind, pass.micro_batch, pass.chunk)
                                       : fmt::format("{}{}", kind, pass.micro_batch);
    }
    if (!out.empty()) out += ' ';
    out += unit.size() > 1 ? fmt::format("[{}]", cell) : cell;
  }
  return out;
}

TEST(PipelineOrder, GPipeGoesForwardThenBackward) {
  EXPECT_EQ(text({Order::gpipe, 3, 1, 2}, 1), "F0 F1 B0 B1");
}

// Narayanan et al. (arXiv 2104.04473) figure 4: stage i of p starts with p - i - 1 forwards.
TEST(PipelineOrder, OneForwardOneBackwardOfFourStages) {
  const PipelineShape shape{Order::one_f_one_b, 4, 1, 5};
  EXPECT_EQ(text(shape, 0), "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4");
  EXPECT_EQ(text(shape, 2), "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4");
  EXPECT_EQ(text(shape, 3), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
}

TEST(PipelineOrder, FewerMicroBatchesThanStagesOnlyFillAndDrain) {
  EXPECT_EQ(text({Order::one_f_one_b, 8, 1, 2}, 0), "F0 F1 B0 B1");
  EXPECT_EQ(text({Order::zb_h1, 4, 1, 1}, 0), "F0 B0 W0");
}

// The same paper: 2 stages of 2 chunks start with 2 (p - i - 1) + (v - 1) p forwards.
TEST(PipelineOrder, InterleavedTakesChunksInTurnsOfOnePipelineDepth) {
  const PipelineShape shape{Order::interleaved_1f1b, 2, 2, 2};
  EXPECT_EQ(text(shape, 0), "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0");
  EXPECT_EQ(text(shape, 1), "F0.0 F1.0 [F0.1 B0.1] [F1.1 B1.1] B0.0 B1.0");
}

// Qi et al. (arXiv 2401.10241) figure 2: the last stage puts its first weight gradient behind
// p - 1 backwards, the first stage behind none.
TEST(PipelineOrder, ZeroBubbleH1DelaysWeightGradientsByTheStage) {
  const PipelineShape shape{Order::zb_h1, 4, 1, 6};
  EXPECT_EQ(text(shape, 0), "F0 F1 F2 F3 B0 W0 F4 B1 W1 F5 B2 W2 B3 W3 B4 W4 B5 W5");
  EXPECT_EQ(text(shape, 3), "F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1 F5 B5 W2 W3 W4 W5");
}

// The same paper, figure 3: 2 (p - i) - 1 forwards come first, and the last stage puts its first
// weight gradient behind 2 p - 1 backwards.
TEST(PipelineOrder, ZeroBubbleH2StartsWithTwiceTheForwards) {
  const PipelineShape shape{Order::zb_2p, 3, 1, 6};
  EXPECT_EQ(text(shape, 0), "F0 F1 F2 F3 F4 B0 W0 F5 B1 W1 B2 W2 B3 W3 B4 W4 B5 W5");
  EXPECT_EQ(text(shape, 1), "F0 F1 F2 B0 F3 B1 F4 B2 W0 F5 B3 W1 B4 W2 B5 W3 W4 W5");
  EXPECT_EQ(text(shape, 2), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 W0 F5 B5 W1 W2 W3 W4 W5");
}

// Peak of forwards whose activations are still needed (until B, or until W where it is apart).
std::int64_t peak_in_flight(const PipelineShape& shape, std::int32_t stage) {
  const bool split = has_weight_grad_passes(shape.order);
  std::int64_t now = 0, peak = 0;
  for (const Unit& unit : pipeline_order(shape, stage)) {
    for (const Pass& pass : unit) {
      if (pass.kind == PassKind::forward) peak = std::max(peak, ++now);
      if (pass.kind == (split ? PassKind::weight_grad : PassKind::backward)) --now;
    }
  }
  EXPECT_EQ(now, 0);
  return peak;
}

// GPipe holds m, 1F1B min(m, p - i), interleaved 2 (p - i - 1) + (v - 1) p + 1 chunks (at most
// m v), ZB-H1 min(m, p) on every stage.
TEST(PipelineOrder, HoldsAsManyMicroBatchesAsTheClosedForms) {
  for (const std::int64_t p : {1, 2, 4, 8}) {
    for (const std::int64_t m : {p, 2 * p, 4 * p}) {
      for (std::int32_t i = 0; i < p; ++i) {
        const auto stages = static_cast<std::int32_t>(p);
        EXPECT_EQ(peak_in_flight({Order::gpipe, stages, 1, m}, i), m);
        EXPECT_EQ(peak_in_flight({Order::one_f_one_b, stages, 1, m}, i), std::min(m, p - i));
        EXPECT_EQ(peak_in_flight({Order::zb_h1, stages, 1, m}, i), std::min(m, p));
        for (const std::int32_t v : {2, 4}) {
          EXPECT_EQ(peak_in_flight({Order::interleaved_1f1b, stages, v, m}, i),
                    std::min(m * v, 2 * (p - i - 1) + (v - 1) * p + 1));
        }
      }
    }
  }
}

// Start and end of each stage when every pass takes 1 and transfers nothing.
struct StageTime {
  std::int64_t start = -1, end = 0;
};
std::vector<StageTime> stage_times(const PipelineShape& shape) {
  std::vector<std::vector<Pass>> passes(shape.stages);
  for (std::int32_t i = 0; i < shape.stages; ++i)
    for (const Unit& unit : pipeline_order(shape, i))
      passes[i].insert(passes[i].end(), unit.begin(), unit.end());
  std::vector<StageTime> times(shape.stages);
  std::vector<std::size_t> at(shape.stages, 0);
  std::map<std::tuple<PassKind, std::int32_t, std::int32_t>, std::int64_t> ends;
  const auto run_next = [&](std::int32_t i) {
    if (at[i] == passes[i].size()) return false;
    const Pass& pass = passes[i][at[i]];
    const std::int32_t from = i + (pass.kind == PassKind::forward    ? -1
                                   : pass.kind == PassKind::backward ? 1
                                                                     : 0);
    std::int64_t start = times[i].end;
    if (from != i && from >= 0 && from < shape.stages) {
      const auto sent = ends.find({pass.kind, pass.micro_batch, from});
      if (sent == ends.end()) return false;
      start = std::max(start, sent->second);
    }
    if (times[i].start < 0) times[i].start = start;
    times[i].end = ends[{pass.kind, pass.micro_batch, i}] = start + 1;
    ++at[i];
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::int32_t i = 0; i < shape.stages; ++i)
      while (run_next(i)) moved = true;
  }
  for (std::int32_t i = 0; i < shape.stages; ++i)
    EXPECT_EQ(at[i], passes[i].size()) << "stage " << i << " waits forever";
  return times;
}

// Each stage holds min(m, 2 p - 1) micro-batches. With passes of one length and 2 p - 1
// micro-batches or more, stage i is busy from i to i + 3 m without a pause (figure 3); with fewer,
// the step takes no longer than with ZB-H1.
TEST(PipelineOrder, ZeroBubbleH2HasNoBubbleFromTwoPMinusOneMicroBatches) {
  for (std::int32_t p = 1; p <= 8; ++p)
    for (std::int64_t m = 1; m <= 3 * p + 1; ++m) {
      SCOPED_TRACE(fmt::format("{} stages, {} micro-batches", p, m));
      const auto times = stage_times({Order::zb_2p, p, 1, m});
      std::int64_t last = 0;
      for (std::int32_t i = 0; i < p; ++i) {
        EXPECT_EQ(peak_in_flight({Order::zb_2p, p, 1, m}, i), std::min<std::int64_t>(m, 2 * p - 1));
        last = std::max(last, times[i].end);
        if (m < 2 * p - 1) continue;
        EXPECT_EQ(times[i].start, i);
        EXPECT_EQ(times[i].end, i + 3 * m);
      }
      std::int64_t h1 = 0;
      for (const StageTime& stage : stage_times({Order::zb_h1, p, 1, m}))
        h1 = std::max(h1, stage.end);
      EXPECT_LE(last, h1);
    }
}

TEST(PipelineOrder, EveryPassHappensOnceAndForwardComesFirst) {
  for (const Order order :
       {Order::gpipe, Order::one_f_one_b, Order::zb_h1, Order::zb_2p, Order::interleaved_1f1b}) {
    for (const std::int32_t p : {1, 2, 3, 5, 7}) {
      const bool interleaved = order == Order::interleaved_1f1b;
      for (const std::int64_t m : {1, 2, 3, 7, 10, 21}) {
        if (interleaved && m % p != 0) continue;
        const std::int32_t v = interleaved ? 3 : 1;
        for (std::int32_t i = 0; i < p; ++i) {
          std::map<std::pair<std::uint16_t, std::int32_t>, int>
              progress;  // 1 after F, 2 after B, 3 after W
          for (const Unit& unit : pipeline_order({order, p, v, m}, i))
            for (const Pass& pass : unit)
              EXPECT_EQ(progress[std::pair(pass.chunk, pass.micro_batch)]++,
                        static_cast<int>(pass.kind));
          EXPECT_EQ(static_cast<std::int64_t>(progress.size()), m * v);
          for (const auto& [key, count] : progress)
            EXPECT_EQ(count, has_weight_grad_passes(order) ? 3 : 2);
        }
      }
    }
  }
}

}  // namespace
}  // namespace trainyard
