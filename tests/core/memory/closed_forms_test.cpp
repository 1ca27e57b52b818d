#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>

#include "core/memory/memory_plan.h"
#include "core/plan/stage.h"
#include "core/plan/waits.h"
#include "tests/core/plan/jobs.h"

namespace trainyard {
namespace {

MemoryUse use_of(const Job& job, std::int32_t stage) {
  Program program = assemble_stage(job, stage);
  derive_waits(program);
  plan_memory(program);
  return memory_use(program);
}

double gib(const MemoryUse& use, std::initializer_list<MemoryClass> classes) {
  double sum = 0;
  for (const MemoryClass c : classes)
    sum += static_cast<double>(use.by_class[static_cast<int>(c)].value) / kGiB;
  return sum;
}

enum class Mode { none, sequence_parallel, selective, both, full };

// The four models of Korthikanti et al. (arXiv 2205.05198 table 3).
Job korthikanti(const std::array<std::int64_t, 3>& layers_hidden_heads, std::int32_t pipeline,
                std::int32_t virtual_stages, std::int64_t micro_batch) {
  const auto [layers, hidden, heads] = layers_hidden_heads;
  Job job;
  Model& m = job.model;
  m.layers = layers, m.hidden = hidden, m.heads = m.kv_heads = heads;
  m.head_dim = hidden / heads, m.ffn = 4 * hidden, m.vocab = 51200;
  m.attention = AttentionImpl::unfused;
  m.dropout = 0.1;
  job.parallel.tensor = 8;
  job.parallel.pipeline = pipeline;
  job.parallel.virtual_stages = virtual_stages;
  if (virtual_stages > 1) job.schedule.pipeline = Order::interleaved_1f1b;
  job.batch = {2 * pipeline * micro_batch, micro_batch, 2048};
  return job;
}

Job with(Job job, Mode mode) {
  job.parallel.sequence = mode == Mode::sequence_parallel || mode == Mode::both;
  if (mode == Mode::selective || mode == Mode::both) job.training.recompute = Recompute::selective;
  if (mode == Mode::full) job.training.recompute = Recompute::full;
  return job;
}

// Table 2 of the paper: bytes a layer keeps per micro-batch, times the chunks that `stage` has in
// flight: p - i under 1F1B, 2 (p - i - 1) + (v - 1) p + 1 when interleaved.
double closed_form_gib(const Job& job, Mode mode, std::int32_t stage) {
  const Model& m = job.model;
  const double t = job.parallel.tensor, p = job.parallel.pipeline, v = job.parallel.virtual_stages;
  const double s = 2048, h = static_cast<double>(m.hidden), a = static_cast<double>(m.heads);
  const double sbh = s * static_cast<double>(job.batch.micro_sequences) * h;
  const double scores = 5 * a * s / (h * t);
  double layer = 0;
  switch (mode) {
    case Mode::none:
      layer = sbh * (10 + 24 / t + scores);
      break;
    case Mode::sequence_parallel:
      layer = sbh * (34 / t + scores);
      break;
    case Mode::selective:
      layer = sbh * (10 + 24 / t);
      break;
    case Mode::both:
      layer = sbh * 34 / t;
      break;
    case Mode::full:
      layer = sbh * 2;
      break;
  }
  const double in_flight = v > 1 ? 2 * (p - stage - 1) + (v - 1) * p + 1 : p - stage;
  return layer * static_cast<double>(m.layers) / (p * v) * in_flight / kGiB;
}

struct Case {
  Job job;
  double states, none, both;  // GiB of figure 1
};

std::vector<Case> figure_1() {
  return {{korthikanti({48, 6144, 64}, 1, 1, 4), 45.56, 59.25, 9.56},
          {korthikanti({96, 12288, 96}, 8, 3, 1), 45.56, 66.84, 12.35},
          {korthikanti({105, 20480, 128}, 35, 3, 1), 31.64, 114.02, 23.08},
          {korthikanti({128, 25600, 160}, 64, 1, 1), 32.96, 131.25, 26.56}};
}

// The figure counts the layers' states only, so a middle stage is compared where there is one.
TEST(MemoryClosedForms, StatesAreThoseOfFigureOne) {
  for (const Case& c : figure_1()) {
    const MemoryUse use = use_of(c.job, c.job.parallel.pipeline / 2);
    EXPECT_NEAR(
        gib(use, {MemoryClass::parameters, MemoryClass::gradients, MemoryClass::optimizer}) /
            c.states,
        1, 0.03);
  }
}

TEST(MemoryClosedForms, ActivationsOfTheFirstStageAreThoseOfFigureOne) {
  for (const Case& c : figure_1()) {
    EXPECT_NEAR(gib(use_of(with(c.job, Mode::none), 0), {MemoryClass::activations}) / c.none, 1,
                0.03)
        << c.job.model.hidden;
    EXPECT_NEAR(gib(use_of(with(c.job, Mode::both), 0), {MemoryClass::activations}) / c.both, 1,
                0.03)
        << c.job.model.hidden;
  }
}

// The second stage, where there is one: the first also keeps the embedding's dropout mask.
TEST(MemoryClosedForms, EveryRecomputationModeKeepsWhatTableTwoSays) {
  for (const Case& c : figure_1()) {
    for (const Mode mode :
         {Mode::none, Mode::sequence_parallel, Mode::selective, Mode::both, Mode::full}) {
      const Job job = with(c.job, mode);
      const std::int32_t stage = job.parallel.pipeline > 1 ? 1 : 0;
      EXPECT_NEAR(
          gib(use_of(job, stage), {MemoryClass::activations}) / closed_form_gib(job, mode, stage),
          1, 0.03)
          << job.model.hidden << " mode " << static_cast<int>(mode);
    }
  }
}

// ZeRO (arXiv 1910.02054 figure 1) with bf16 parameters and fp32 gradients: bytes a parameter
// 18, 6 + 12/d, 2 + 16/d, 18/d.
TEST(MemoryClosedForms, ZeroLevelsHoldTheirShareOfTheStates) {
  Job job = small_job(1, 1, 8, 1);
  job.model.hidden = 1024, job.model.head_dim = 128, job.model.ffn = 4096;
  job.model.layers = 24;
  job.batch.sequence_length = 16;
  const double parameters = static_cast<double>(parameter_count(job.model, 16));
  const std::array expected{18.0, 6 + 12.0 / 8, 2 + 16.0 / 8, 18.0 / 8};
  for (std::int32_t zero = 0; zero <= 3; ++zero) {
    job.parallel.zero = zero;
    Program program = assemble_stage(job, 0);
    derive_waits(program);
    plan_memory(program);
    // Persistent buffers are what lasts from step to step; gradients of ZeRO-2 do not.
    const double persistent = static_cast<double>(program.persistent_bytes.value) / parameters;
    const double kept = zero == 2 ? expected[2] - 4.0 / 8 : expected[zero];
    EXPECT_NEAR(persistent / kept, 1, 0.03) << zero;
  }
}

}  // namespace
}  // namespace trainyard
