#include <gtest/gtest.h>

#include "core/memory/memory_plan.h"
#include "core/plan/parameter_layout.h"
#include "core/plan/plan.h"
#include "core/plan/stage.h"
#include "core/program/accesses.h"
#include "core/program/happens_before.h"
#include "tests/core/plan/jobs.h"

namespace trainyard {
namespace {

// "reads chunk0.param_shard before it is written": in fp32 the shard is the only master copy, and
// was dropped at the end of the step.
TEST(PlannerRegressions, Fp32ShardsLastFromStepToStep) {
  for (const std::int32_t zero : {1, 2}) {
    Job job = small_job(1, 1, 2, 1);
    job.training.precision = Precision::fp32;
    job.parallel.zero = zero;
    EXPECT_NO_THROW(plan(job)) << "ZeRO-" << zero;
  }
}

// "W0.0 computes nothing": a first stage of the embedding alone has no weight gradients to put off,
// with and without reductions that would have followed them.
TEST(PlannerRegressions, AnEmbeddingStageHasNoWeightGradientPasses) {
  for (const bool overlap : {false, true}) {
    Job job = small_job(1, 3, 2, 3);
    job.schedule.pipeline = overlap ? Order::zb_2p : Order::zb_h1;
    job.schedule.overlap.pipeline = job.schedule.overlap.data = overlap;
    job.parallel.zero = 1;
    job.parallel.layers_per_stage = {0, 4, 4};
    const ProgramSet set = plan(job);
    for (const Pass& pass : set.by_stage[0]->passes)
      EXPECT_NE(pass.kind, PassKind::weight_grad) << overlap;
  }
}

// Losses drifted apart with tensor and data parallelism, sequence shards and overlap "data": the
// sum of the replicated gradients over the tensor ranks did not wait for the norms' backward
// kernels, since its view of the bucket counted as disjoint from the tensors'.
TEST(PlannerRegressions, ReplicatedGradientsAreSummedAfterTheyAreComputed) {
  Job job = small_job(2, 1, 2, 2);
  job.parallel.sequence = true;
  job.parallel.zero = 2;
  job.schedule.overlap.data = true;
  const ProgramSet set = plan(job);
  const Program& program = *set.by_stage[0];
  const HappensBefore order(program);
  const auto buffer_name = [&](const Operand& operand) {
    return program.buffer_types[program.buffers[operand.buffer].type].name;
  };
  int sums = 0;
  for (std::uint32_t i = 0; i < program.code.size(); ++i) {
    const Operand sum = operands_of(program, program.code[i]).front();
    if (program.code[i].op != Op::all_reduce || buffer_name(sum) != "replicated_grads") continue;
    ++sums;
    int writers = 0;
    for (std::uint32_t k = 0; k < i; ++k) {
      const Instr& kernel = program.code[k];
      if (kernel.op != Op::kernel) continue;
      for (const Operand& operand : operands_of(program, kernel)) {
        if (root_of(program, operand.buffer) != root_of(program, sum.buffer)) continue;
        const std::string name = buffer_name(operand);
        const bool replicated =
            name.find("norm") != std::string::npos || name.find("positions") != std::string::npos;
        if (!operand.writes() || !replicated) continue;
        ++writers;
        EXPECT_TRUE(order.ordered(k, i)) << k << " and " << i;
      }
    }
    EXPECT_GT(writers, 0) << i;
  }
  EXPECT_GT(sums, 0);
}

// fairseq2#1374: an overflow on one rank left ranks with different loss scales. In fp16, clipped or
// not, all ranks read a sum that has every rank's overflows in it.
TEST(PlannerRegressions, AnOverflowOnOneRankIsReadByAll) {
  for (const std::int32_t zero : {0, 1}) {
    Job job = small_job(2, 2, 2);
    job.training.precision = Precision::fp16;
    job.training.clip = 0;
    job.parallel.zero = zero;
    for (const auto& program : plan(job).by_stage) {
      std::vector<std::uint32_t> reads, sums;
      for (std::uint32_t i = 0; i < program->code.size(); ++i) {
        const Instr& instr = program->code[i];
        if (instr.op == Op::host && static_cast<HostWork>(instr.what) == HostWork::read_scalar)
          reads.push_back(i);
        // With ZeRO-0 the data replicas have summed their gradients before.
        if (instr.op == Op::all_reduce && instr.group == (zero > 0 ? Group::world : Group::model))
          sums.push_back(i);
      }
      ASSERT_EQ(reads.size(), 1u);
      ASSERT_EQ(sums.size(), 1u);
      EXPECT_EQ(operands_of(*program, program->code[reads[0]])[0].buffer,
                operands_of(*program, program->code[sums[0]])[0].buffer);
      EXPECT_TRUE(HappensBefore(*program).ordered(sums[0], reads[0]));
    }
  }
}

// memory_use() crashed on a persistent buffer that no instruction uses.
TEST(PlannerRegressions, UnusedPersistentBuffersAreCounted) {
  Program program;
  program.buffer_types.push_back(
      {"unused", {4, 8}, {4, 8}, DType::fp32, MemoryClass::optimizer, true});
  program.buffers.emplace_back();
  plan_memory(program);
  const MemoryUse use = memory_use(program);
  EXPECT_EQ(use.by_class[static_cast<int>(MemoryClass::optimizer)].value, 4 * 8 * 4);
}

// A parallel block trained with LAMB gave other losses with overlap "tensor" than without: QKV and
// fc1 were one tensor to its trust ratio with it, two without.
TEST(PlannerRegressions, ParametersOfAParallelBlockDoNotDependOnOverlaps) {
  Job job = small_job(2, 1);
  job.model.block = Block::parallel;
  const auto tensors = [&job](bool overlapped) {
    job.schedule.overlap.tensor = overlapped;
    std::vector<std::pair<std::string, std::int64_t>> all;
    for (const BucketLayout& bucket : bucket_layouts(job, 0, 0))
      for (const HeldTensor& tensor : bucket.tensors)
        all.emplace_back(tensor.name, tensor.elements);
    return all;
  };
  EXPECT_EQ(tensors(true), tensors(false));
}

}  // namespace
}  // namespace trainyard
