#include "core/plan/stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/core/plan/jobs.h"

namespace trainyard {
namespace {

std::vector<Program> stages(const Job& job) {
  std::vector<Program> all;
  for (std::int32_t s = 0; s < job.stages(); ++s) all.push_back(assemble_stage(job, s));
  return all;
}

using Pick = std::function<bool(const Program&, const Instr&)>;

std::int64_t count(const std::vector<Program>& programs, const Pick& pick) {
  std::int64_t n = 0;
  for (const Program& p : programs)
    for (const Instr& i : p.code) n += pick(p, i) ? 1 : 0;
  return n;
}

Pick op(Op wanted, Group group) {
  return [=](const Program&, const Instr& i) { return i.op == wanted && i.group == group; };
}

bool is_kernel(const Program& p, const Instr& i, KernelKind kind) {
  return i.op == Op::kernel && p.kernels[i.what].kind == kind;
}

double flops(const std::vector<Program>& programs, bool attention) {
  double sum = 0;
  for (const Program& p : programs) {
    for (const Instr& i : p.code) {
      if (i.op != Op::kernel) continue;
      const KernelKind kind = p.kernels[i.what].kind;
      const bool is_attention =
          kind == KernelKind::attention_forward || kind == KernelKind::attention_backward;
      if (is_attention == attention) sum += p.kernels[i.what].flops;
    }
  }
  return sum;
}

// Forward, input and weight gradient of every product: 6 FLOPs a weight and token. The attention
// kernels do 4 (forward) + 10 (backward, with recomputation) FLOPs a query, key and channel.
TEST(StagePrograms, DoExactlyTheModelsArithmetic) {
  for (const std::int32_t tensor : {1, 2, 4}) {
    for (const std::int32_t pipeline : {1, 2, 4}) {
      const Job job = small_job(tensor, pipeline);
      const Model& m = job.model;
      const double tokens = 4 * 128;
      const double weights = 8.0 * (256 * 768 + 256 * 256 + 2 * 256 * 1024) + 256.0 * 1000;
      const auto programs = stages(job);
      EXPECT_DOUBLE_EQ(flops(programs, false) * tensor, 6 * tokens * weights);
      EXPECT_DOUBLE_EQ(flops(programs, true) * tensor,
                       14 * tokens * 8 * 256 * mean_causal_keys(128, m.window));
    }
  }
}

TEST(StagePrograms, FullRecomputationRepeatsTheLayersForward) {
  Job job = small_job(2, 2);
  const auto plain = stages(job);
  job.training.recompute = Recompute::full;
  const auto again = stages(job);
  const double tokens = 4 * 128;
  const double layers = 8.0 * (256 * 768 + 256 * 256 + 2 * 256 * 1024);
  EXPECT_DOUBLE_EQ((flops(again, false) - flops(plain, false)) * 2, 2 * tokens * layers);
}

TEST(StagePrograms, SelectiveRecomputationRepeatsUnfusedAttentionOnly) {
  Job job = small_job();
  job.model.attention = AttentionImpl::unfused;
  const auto scores = [](const Program& p, const Instr& i) {
    return is_kernel(p, i, KernelKind::attention_scores);
  };
  EXPECT_EQ(count(stages(job), scores), 8 * 4);
  job.training.recompute = Recompute::selective;
  EXPECT_EQ(count(stages(job), scores), 2 * 8 * 4);
}

// Megatron-LM without sequence parallelism: 2 all-reduces forward and 2 backward a layer and
// micro-batch, and one each for the embedding, the head's input gradient and, twice, the loss.
TEST(StagePrograms, TensorParallelLayersAllReduceFourTimes) {
  EXPECT_EQ(count(stages(small_job(2, 2)), op(Op::all_reduce, Group::tensor)),
            4 * (8 * 4 + 1 + 1 + 2));
}

// With it: 2 all-gathers and 2 reduce-scatters forward, 2 + 2 backward and 2 all-gathers again for
// the weight gradients (arXiv 2205.05198 section 4.2.2). Around the layers: the embedding scatters
// and its backward gathers; the head gathers forward and for its weight gradient, and scatters.
TEST(StagePrograms, SequenceParallelLayersGatherAndScatter) {
  Job job = small_job(2, 2);
  job.parallel.sequence = true;
  const auto programs = stages(job);
  EXPECT_EQ(count(programs, op(Op::all_gather, Group::tensor)), 4 * (8 * 6 + 1 + 2));
  EXPECT_EQ(count(programs, op(Op::reduce_scatter, Group::tensor)), 4 * (8 * 4 + 1 + 1));
}

// One norm, one gather, one scatter a direction (arXiv 2402.15627 section 3.1).
TEST(StagePrograms, TheParallelBlockHalvesTheCollectives) {
  Job job = small_job(2, 2);
  job.parallel.sequence = true;
  job.model.block = Block::parallel;
  const auto programs = stages(job);
  EXPECT_EQ(count(programs, op(Op::all_gather, Group::tensor)), 4 * (8 * 3 + 1 + 2));
  EXPECT_EQ(count(programs, op(Op::reduce_scatter, Group::tensor)), 4 * (8 * 2 + 1 + 1));
}

TEST(StagePrograms, TensorOverlapCutsProductsAndCollectivesAlike) {
  Job job = small_job(2, 1);
  job.parallel.sequence = true;
  job.model.block = Block::parallel;
  const auto forward = [](const Program& p, const Instr& i) {
    return is_kernel(p, i, KernelKind::gemm_forward);
  };
  // A parallel block's products are joint.
  EXPECT_EQ(count(stages(job), forward), 4 * (8 * 2 + 1));
  job.schedule.overlap.tensor = true;
  job.schedule.tensor_chunks = 4;
  EXPECT_EQ(count(stages(job), forward), 4 * 4 * (8 * 2 + 1));
  EXPECT_DOUBLE_EQ(flops(stages(job), false) * 2,
                   6 * 4 * 128 * (8.0 * (256 * 768 + 256 * 256 + 2 * 256 * 1024) + 256.0 * 1000));
}

TEST(StagePrograms, EveryMessageIsSentAndReceivedOnce) {
  for (const bool decoupled : {false, true}) {
    Job job = small_job(1, 4, 1, 8);
    job.schedule.pipeline = Order::interleaved_1f1b;
    job.parallel.virtual_stages = 2;
    job.schedule.overlap.pipeline = decoupled;
    const auto programs = stages(job);
    // 8 chunks have 7 boundaries, both ways, for 8 micro-batches.
    EXPECT_EQ(count(programs, op(Op::send, Group::pipeline)), 7 * 2 * 8);
    EXPECT_EQ(count(programs, op(Op::recv, Group::pipeline)), 7 * 2 * 8);
    EXPECT_EQ(
        count(programs, [](const Program&,
                           const Instr& i) { return (i.flags & kGroupedWithNext) != 0; }) == 0,
        decoupled);
  }
}

// Per bucket and step: ZeRO-0 one all-reduce; ZeRO-1 and 2 one reduce-scatter and one all-gather;
// ZeRO-3 a gather per pass and a reduction per backward pass.
TEST(StagePrograms, ZeroLevelsMoveTheTrafficTheyPromise) {
  Job job = small_job(1, 1, 4, 1);
  job.model.tied = false;
  const auto traffic = [&](std::int32_t zero) {
    job.parallel.zero = zero;
    const auto programs = stages(job);
    return std::array{count(programs, op(Op::all_reduce, Group::data)),
                      count(programs, op(Op::reduce_scatter, Group::data)),
                      count(programs, op(Op::all_gather, Group::data))};
  };
  // The one loss is all-reduced too. ZeRO-2 and 3 have a bucket a layer and one for each end.
  EXPECT_EQ(traffic(0), (std::array<std::int64_t, 3>{1 + 1, 0, 0}));
  EXPECT_EQ(traffic(1), (std::array<std::int64_t, 3>{1, 1, 1}));
  EXPECT_EQ(traffic(2), (std::array<std::int64_t, 3>{1, 10, 10}));
  EXPECT_EQ(traffic(3), (std::array<std::int64_t, 3>{1, 10, 2 * 10}));
}

// The table shared a bucket with the output projection, which is needed last: one stage gathered
// all its parameters before it embedded the first token.
TEST(StagePrograms, OneStageGathersTheEmbeddingBeforeItsLayers) {
  Job job = small_job(1, 1, 4, 1);
  job.model.tied = false;
  job.parallel.zero = 2;
  job.schedule.overlap.data = true;
  const Program p = stages(job)[0];
  const auto root = [&](const Instr& i, std::uint32_t operand) {
    std::uint32_t buffer = p.operands[i.first_operand + operand].buffer;
    while (p.buffers[buffer].parent != kNone) buffer = p.buffers[buffer].parent;
    return buffer;
  };
  const auto gather = std::ranges::find_if(
      p.code, [](const Instr& i) { return i.op == Op::all_gather && i.group == Group::data; });
  const auto embed = std::ranges::find_if(
      p.code, [&](const Instr& i) { return is_kernel(p, i, KernelKind::embedding_forward); });
  ASSERT_NE(gather, p.code.end());
  ASSERT_NE(embed, p.code.end());
  EXPECT_EQ(root(*gather, 1), root(*embed, 1));  // written by one, read as a table by the other
}

// PyTorch FSDP's BACKWARD_POST gathers the next layer between two layers of the backward pass,
// BACKWARD_PRE beside the first of them; both before the layer's gradients are reduced.
TEST(StagePrograms, WithoutPrefetchBackwardGathersBetweenLayers) {
  Job job = small_job(1, 1, 4, 1);
  job.model.tied = false;
  job.parallel.zero = 3;
  job.schedule.overlap.data = true;
  const auto waited_for = [&](bool prefetch) {
    job.schedule.overlap.prefetch = prefetch;
    const Program p = stages(job)[0];
    // The last gathers are the first layer's, in the backward pass, and the embedding's.
    const auto gathers = [](const Instr& i) {
      return i.op == Op::all_gather && i.group == Group::data;
    };
    const auto last = std::find_if(p.code.rbegin(), p.code.rend(), gathers);
    const auto gather = std::find_if(std::next(last), p.code.rend(), gathers);
    std::int64_t norms = 0;  // norms whose backward kernel stands before it: two a layer
    for (auto i = gather; i != p.code.rend(); ++i)
      norms += is_kernel(p, *i, KernelKind::norm_backward) ? 1 : 0;
    return norms;
  };
  EXPECT_EQ(waited_for(false) - waited_for(true), 2);
}

TEST(StagePrograms, UnevenLayersAreAllThere) {
  Job job = small_job(1, 3);
  job.parallel.layers_per_stage = {3, 4, 1};
  const auto attention = [](const Program& p, const Instr& i) {
    return is_kernel(p, i, KernelKind::attention_forward);
  };
  const auto programs = stages(job);
  EXPECT_EQ(count({programs[0]}, attention), 3 * 4);
  EXPECT_EQ(count({programs[1]}, attention), 4 * 4);
  EXPECT_EQ(count({programs[2]}, attention), 1 * 4);
}

TEST(StagePrograms, SplitBackwardMovesWeightGradientsToTheirOwnPasses) {
  Job job = small_job(1, 2);
  job.schedule.pipeline = Order::zb_h1;
  for (const Program& p : stages(job))
    for (const Instr& i : p.code)
      if (is_kernel(p, i, KernelKind::gemm_weight_grad)) {
        EXPECT_EQ(p.passes[i.pass].kind, PassKind::weight_grad);
      }
}

TEST(StagePrograms, BlockingLoadsPrecedeAllWorkAndAsynchronousOnesDoNot) {
  Job job = small_job();
  const auto blocking = [](const Program&, const Instr& i) {
    return i.op == Op::host && i.stream == Stream::host &&
           i.what == static_cast<std::uint32_t>(HostWork::load_batch);
  };
  EXPECT_EQ(count(stages(job), blocking), 1);
  job.schedule.overlap.data_loading = true;
  EXPECT_EQ(count(stages(job), blocking), 0);
}

}  // namespace
}  // namespace trainyard
