#include <fmt/core.h>
#include <gtest/gtest.h>

#include <random>

#include "core/config/report.h"
#include "core/config/rules.h"
#include "core/error.h"
#include "core/plan/plan.h"
#include "tests/core/plan/jobs.h"

namespace trainyard {
namespace {

// Draws jobs that are often illegal and always small: primes, ones, more stages than layers, fewer
// micro-batches than stages, odd vocabularies, two interleaved stages.
class JobMaker {
 public:
  explicit JobMaker(std::uint64_t seed) : random_(seed) {}

  Job make() {
    Job job = small_job(pick({1, 1, 2, 3, 4}), pick({1, 2, 2, 3, 4, 5, 8}), pick({1, 2, 3}),
                        pick({1, 2, 3, 4, 5, 6, 8, 12}));
    shape(job.model);
    Parallel& p = job.parallel;
    job.batch.sequence_length = pick({24, 48, 60});
    job.batch.micro_sequences = pick({1, 1, 2});
    job.batch.global_sequences *= job.batch.micro_sequences;
    p.sequence = chance(2);
    p.zero = pick({0, 0, 1, 2, 3});
    p.context = chance(3) ? pick({2, 3, 4}) : 1;
    job.schedule.pipeline = static_cast<Order>(pick({0, 1, 1, 2, 2, 3, 4}));
    const bool interleaved = job.schedule.pipeline == Order::interleaved_1f1b;
    p.virtual_stages = interleaved ? pick({1, 2, 2, 3}) : pick({1, 1, 1, 1, 2});
    if (chance(6)) split_unevenly(job);
    job.schedule.overlap = {chance(3), chance(2), chance(2), chance(2), chance(2)};
    job.schedule.tensor_chunks = pick({2, 3, 4});
    job.training.recompute = static_cast<Recompute>(pick({0, 1, 2}));
    job.training.optimizer = static_cast<Optimizer>(pick({0, 1, 2}));
    job.training.precision = static_cast<Precision>(pick({0, 1}));
    job.training.vocab_divisible_by = pick({1, 7, 128});
    job.training.clip = chance(4) ? 0 : 1;
    job.cluster.nodes = job.mesh().size();
    give_hardware(job.cluster);
    if (!chance(3)) make_legal(job);
    return job;
  }

 private:
  void shape(Model& m) {
    m.layers = pick({1, 2, 3, 4, 5, 6, 8, 12});
    m.heads = pick({1, 2, 3, 4, 6, 12});
    m.kv_heads = chance(3) ? pick({1, 2, 3}) : m.heads;
    m.head_dim = 4;
    m.hidden = m.heads * m.head_dim;
    m.ffn = pick({12, 24, 29, 48});
    m.vocab = pick({1, 2, 97, 257, 1000});
    m.window = chance(3) ? pick({1, 7, 24}) : 0;
    m.block = chance(2) ? Block::parallel : Block::serial;
    m.norm = chance(2) ? Norm::rmsnorm : Norm::layernorm;
    m.activation = chance(2) ? Activation::swiglu : Activation::gelu;
    m.position = static_cast<Position>(pick({0, 1, 2}));
    m.attention = chance(3) ? AttentionImpl::unfused : AttentionImpl::flash;
    m.tied = chance(2);
    m.bias = chance(2);
    m.dropout = chance(2) ? 0.1 : 0;
  }

  // Mends what the draw most often breaks, so that enough jobs are planned.
  void make_legal(Job& job) {
    Model& m = job.model;
    Parallel& p = job.parallel;
    Overlap& overlap = job.schedule.overlap;
    const bool interleaved = job.schedule.pipeline == Order::interleaved_1f1b;
    if (!interleaved) p.virtual_stages = 1;
    if (interleaved && p.virtual_stages == 1) p.virtual_stages = 2;
    if (p.layers_per_stage.empty()) m.layers = job.chunks() * pick({1, 1, 2});
    if (interleaved) job.batch.global_sequences *= p.pipeline;
    m.heads = 12, m.kv_heads = pick({12, 12, p.tensor}), m.hidden = 48, m.ffn = 48;
    if (m.heads % m.kv_heads != 0) m.kv_heads = m.heads;
    p.sequence = p.sequence && p.tensor > 1;
    overlap.tensor = overlap.tensor && p.sequence;
    overlap.pipeline = overlap.pipeline || job.schedule.pipeline == Order::zb_2p;
    if (p.context > 1) m.attention = AttentionImpl::flash;
    overlap.prefetch = overlap.prefetch && overlap.data && p.zero > 0;
    if (overlap.tensor) job.batch.sequence_length = 48;
    m.window = std::min(m.window, job.batch.sequence_length);
  }

  // Enough of it that only the shapes decide.
  static void give_hardware(Cluster& cluster) {
    cluster.gpu.memory = {std::int64_t{1} << 40};
    cluster.gpu.peak_bf16 = cluster.gpu.peak_fp32 = teraflops(100);
    cluster.gpu.batched_gemm_tflops = 50;
    GpuProfile::Attention flash{.name = "flash2"};
    flash.forward_tflops = flash.backward_tflops = 50;
    cluster.gpu.attention.push_back(flash);
    cluster.node.gpus = 1;
    cluster.node.nics = 1;
    cluster.node.nic = gigabytes_per_second(10);
  }

  void split_unevenly(Job& job) {
    std::int64_t left = job.model.layers;
    for (std::int32_t c = 0; c < job.chunks(); ++c) {
      const auto layers =
          c + 1 == job.chunks() ? left : std::min<std::int64_t>(left, pick({0, 1, 2}));
      job.parallel.layers_per_stage.push_back(static_cast<std::int32_t>(layers));
      left -= layers;
    }
  }

  int pick(std::initializer_list<int> choices) {
    return choices.begin()[random_() % choices.size()];
  }
  bool chance(int one_in) { return random_() % one_in == 0; }

  std::mt19937_64 random_;
};

// The rules' complaints; empty: the job is legal.
std::string complaints(const Job& job) {
  const Settings nothing_given;
  Report report(nothing_given, job, {});
  check_rules(job, report);
  try {
    report.finish();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

std::string describe(const Job& job) {
  const Parallel& p = job.parallel;
  return fmt::format(
      "t{} p{} v{} d{} c{} m{} L{} order {} zero {} seq {} overlap {}{}{}{} recompute {}", p.tensor,
      p.pipeline, p.virtual_stages, p.data, p.context, job.micro_batches(), job.model.layers,
      static_cast<int>(job.schedule.pipeline), p.zero, p.sequence, job.schedule.overlap.tensor,
      job.schedule.overlap.pipeline, job.schedule.overlap.data, job.schedule.overlap.prefetch,
      static_cast<int>(job.training.recompute));
}

std::int64_t attention_layers(const ProgramSet& set) {
  std::int64_t n = 0;
  for (const auto& program : set.by_stage)
    for (const Instr& i : program->code)
      if (i.op == Op::kernel && program->passes[i.pass].kind == PassKind::forward) {
        const KernelKind kind = program->kernels[i.what].kind;
        n += kind == KernelKind::attention_forward || kind == KernelKind::attention_context ? 1 : 0;
      }
  return n;
}

// plan() proves each result sound (no deadlock under rendezvous sends, matched transfers and
// collectives, ordered memory) and throws otherwise. That no layer is lost is checked apart.
TEST(SlowRandomJobs, AreRefusedClearlyOrPlannedSoundly) {
  JobMaker maker(20240611);
  int planned = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const Job job = maker.make();
    const std::string why = complaints(job);
    if (!why.empty()) {
      ++refused;
      continue;
    }
    try {
      const ProgramSet set = plan(job);
      ASSERT_EQ(attention_layers(set), job.model.layers * job.micro_batches()) << describe(job);
      ++planned;
    } catch (const ConfigError&) {
      ++refused;
    } catch (const InternalError& e) {
      FAIL() << describe(job) << "\n" << e.what();
    }
  }
  // Both outcomes must be common, or the draw proves little.
  EXPECT_GT(planned, 4000);
  EXPECT_GT(refused, 4000);
  fmt::print("{} jobs planned, {} refused\n", planned, refused);
}

}  // namespace
}  // namespace trainyard
