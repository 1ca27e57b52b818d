#include "backends/common/calibration/trial_jobs.h"

#include <array>

namespace trainyard {
namespace {

enum class Style : std::uint8_t { gpt, llama };

struct Trial {
  Style style;
  std::int64_t layers, hidden, heads, head_dim, ffn, vocab;
  std::int64_t sequence, micro_sequences, micro_batches;
  Optimizer optimizer;
  AttentionImpl attention;
  double dropout;
  Recompute recompute = Recompute::none;
};

using enum Style;
using enum Optimizer;
constexpr AttentionImpl kFused = AttentionImpl::flash, kUnfused = AttentionImpl::unfused;

// Tensor parallelism leaves a layer its hidden size and takes heads, ffn and vocabulary: so do the
// rows with few heads.
constexpr std::array kTrials{
    Trial{gpt, 2, 96, 3, 32, 384, 512, 96, 2, 3, adamw, kFused, 0},
    Trial{gpt, 2, 192, 2, 48, 192, 320, 128, 1, 3, adamw, kFused, 0.1},
    Trial{gpt, 2, 160, 5, 32, 640, 1536, 64, 1, 3, adam, kUnfused, 0},
    Trial{gpt, 2, 64, 2, 32, 256, 256, 192, 2, 3, lamb, kUnfused, 0.1},
    Trial{gpt, 1, 256, 1, 64, 256, 768, 160, 4, 2, adamw, kFused, 0, Recompute::full},
    Trial{gpt, 1, 384, 6, 64, 1536, 640, 64, 2, 2, lamb, kUnfused, 0.1, Recompute::selective},
    Trial{llama, 2, 112, 7, 16, 320, 384, 80, 4, 3, adamw, kFused, 0},
    Trial{llama, 2, 224, 2, 56, 224, 1024, 128, 1, 3, adam, kFused, 0},
    Trial{llama, 1, 320, 5, 64, 896, 512, 192, 2, 2, adamw, kFused, 0},
    Trial{llama, 2, 80, 1, 40, 104, 160, 48, 1, 4, adamw, kUnfused, 0},
    Trial{llama, 1, 448, 2, 64, 352, 288, 96, 3, 2, lamb, kFused, 0},
    Trial{gpt, 2, 48, 1, 24, 96, 128, 32, 2, 4, adam, kFused, 0.1},
    // Attention alone differs much here.
    Trial{gpt, 1, 64, 3, 32, 64, 128, 160, 2, 2, adamw, kFused, 0},
    Trial{gpt, 1, 64, 6, 32, 64, 128, 112, 1, 2, adamw, kFused, 0},
    Trial{llama, 1, 64, 4, 48, 64, 128, 256, 1, 2, adamw, kFused, 0},
    Trial{llama, 1, 64, 2, 32, 64, 128, 144, 2, 2, adamw, kFused, 0},
    Trial{gpt, 1, 64, 8, 16, 64, 128, 144, 1, 2, adamw, kFused, 0},
    Trial{llama, 1, 64, 2, 64, 64, 128, 224, 2, 2, adamw, kFused, 0},
    Trial{gpt, 1, 64, 5, 32, 64, 128, 80, 2, 2, adamw, kFused, 0},
    Trial{llama, 1, 64, 1, 32, 64, 128, 128, 3, 2, adamw, kFused, 0},
};

constexpr std::array kDeviceTrials{
    Trial{gpt, 1, 32, 1, 32, 64, 64, 32, 1, 2, adamw, kFused, 0},
    Trial{gpt, 1, 96, 3, 32, 384, 512, 96, 2, 2, adamw, kFused, 0.1},
    Trial{gpt, 1, 64, 2, 32, 256, 256, 64, 2, 2, lamb, kUnfused, 0.1},
    Trial{llama, 1, 112, 7, 16, 320, 384, 80, 2, 2, adam, kFused, 0},
    Trial{gpt, 1, 64, 1, 64, 128, 128, 64, 1, 2, adamw, kFused, 0, Recompute::full},
    Trial{gpt, 1, 64, 2, 32, 128, 128, 64, 1, 2, adam, kUnfused, 0},
    Trial{llama, 1, 64, 1, 64, 96, 160, 96, 1, 2, lamb, kFused, 0},
    Trial{llama, 1, 64, 2, 32, 128, 256, 128, 1, 2, adamw, kUnfused, 0},
    // From here on what fills a GPU.
    Trial{gpt, 2, 512, 8, 64, 2048, 8192, 512, 4, 2, adamw, kFused, 0.1},
    Trial{gpt, 1, 512, 8, 64, 2048, 8192, 512, 4, 2, lamb, kUnfused, 0.1},
    Trial{llama, 2, 512, 8, 64, 1408, 8192, 512, 8, 2, adam, kFused, 0},
    Trial{gpt, 2, 768, 12, 64, 3072, 50304, 512, 8, 2, adamw, kFused, 0},
    Trial{gpt, 2, 1024, 4, 64, 1024, 12576, 1024, 8, 2, adam, kFused, 0},  // a fourth of a layer
    Trial{llama, 1, 1024, 8, 128, 2816, 16384, 1024, 4, 2, lamb, kUnfused, 0},
    Trial{gpt, 2, 768, 12, 64, 3072, 50304, 1024, 16, 2, adamw, kFused, 0},
    Trial{llama, 2, 1024, 16, 64, 2816, 32000, 1024, 16, 2, adamw, kFused, 0},
    Trial{gpt, 2, 1600, 25, 64, 6400, 50304, 1024, 8, 2, lamb, kFused, 0.1},
    Trial{llama, 1, 2048, 16, 128, 5632, 32000, 2048, 4, 2, adam, kFused, 0},
    Trial{gpt, 1, 2048, 16, 128, 8192, 50304, 2048, 4, 2, adamw, kFused, 0},
    Trial{llama, 1, 2048, 8, 128, 5632, 16000, 4096, 4, 2, adamw, kFused, 0},
    Trial{llama, 1, 4096, 32, 128, 11008, 32000, 2048, 4, 2, adamw, kFused, 0},
};

Job job_of(const Trial& trial, Precision precision, std::int32_t threads) {
  Job job;
  job.name = "calibration";
  Model& m = job.model;
  m.layers = trial.layers;
  m.hidden = trial.hidden;
  m.heads = m.kv_heads = trial.heads;
  m.head_dim = trial.head_dim;
  m.ffn = trial.ffn;
  m.vocab = trial.vocab;
  m.attention = trial.attention;
  m.dropout = trial.dropout;
  if (trial.style == llama) {
    m.norm = Norm::rmsnorm;
    m.activation = Activation::swiglu;
    m.position = Position::rope;
    m.bias = m.tied = false;
  }
  job.batch = {trial.micro_sequences * trial.micro_batches, trial.micro_sequences, trial.sequence};
  job.training.precision = precision;
  job.training.optimizer = trial.optimizer;
  job.training.recompute = trial.recompute;
  job.training.vocab_divisible_by = 1;
  job.training.clip = 1e-6;  // clips always
  job.running.threads = threads;
  return job;
}

}  // namespace

std::vector<Job> trial_jobs(Precision precision, std::int32_t threads) {
  std::vector<Job> jobs;
  for (const Trial& trial : kTrials) jobs.push_back(job_of(trial, precision, threads));
  return jobs;
}

std::vector<Job> device_trial_jobs(Precision precision) {
  std::vector<Job> jobs;
  for (const Trial& trial : kDeviceTrials) jobs.push_back(job_of(trial, precision, 1));
  return jobs;
}

}  // namespace trainyard
