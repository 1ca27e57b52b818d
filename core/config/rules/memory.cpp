#include <fmt/format.h>

#include <algorithm>

#include "core/config/rules.h"

namespace trainyard {
namespace {

// Bytes a rank holds for each of its parameters: bf16 or fp16 weights 2, fp32 gradients 4, fp32
// main weights and two moments 12; all-fp32 training 4 + 4 + 8. ZeRO divides one after the other
// by the data and context ranks (arXiv 1910.02054, section 5, with fp32 gradients).
double bytes_per_parameter(const Job& job) {
  const bool fp32 = job.training.precision == Precision::fp32;
  const double shards = job.parallel.data * job.parallel.context;
  const int zero = job.parallel.zero;
  return (fp32 ? 4.0 : 2.0) / (zero >= 3 ? shards : 1) + 4.0 / (zero >= 2 ? shards : 1) +
         (fp32 ? 8.0 : 12.0) / (zero >= 1 ? shards : 1);
}

// Parameters of one rank of the fullest stage: its layers, and the vocabulary table on the ends.
double parameters_of_fullest(const Job& job) {
  const Parallel& p = job.parallel;
  const double tensor = p.tensor;
  const double table = static_cast<double>(padded_vocab(job.model.vocab, p.tensor,
                                                        job.training.vocab_divisible_by)) *
                       static_cast<double>(job.model.hidden);
  double most = 0;
  for (std::int32_t stage = 0; stage < p.pipeline; ++stage) {
    std::int64_t layers = job.model.layers / p.pipeline;
    if (!p.layers_per_stage.empty()) {
      layers = 0;
      for (std::int32_t chunk = 0; chunk < p.virtual_stages; ++chunk)
        layers += p.layers_per_stage[static_cast<std::size_t>(stage * p.virtual_stages + chunk)];
    }
    double tables = (stage == 0 || stage == p.pipeline - 1) ? 1 : 0;
    if (p.pipeline == 1 && !job.model.tied) tables = 2;
    most = std::max(
        most, (static_cast<double>(layers) * static_cast<double>(layer_parameter_count(job.model)) +
               tables * table) /
                  tensor);
  }
  return most;
}

}  // namespace

// A lower bound from states alone, so that hopeless jobs are told before they are planned.
void check_memory(const Job& job, Report& report) {
  for (std::string_view key : {"model.layers",
                               "model.hidden",
                               "model.heads",
                               "model.kv_heads",
                               "model.head_dim",
                               "model.ffn",
                               "model.vocab",
                               "model.activation",
                               "model.block",
                               "model.norm",
                               "model.bias",
                               "model.tied",
                               "parallel.tensor",
                               "parallel.pipeline",
                               "parallel.virtual_stages",
                               "parallel.data",
                               "parallel.context",
                               "parallel.zero",
                               "parallel.layers_per_stage",
                               "training.precision",
                               "training.vocab_divisible_by",
                               "cluster.gpu.memory"})
    if (!report.usable({key})) return;
  const auto& split = job.parallel.layers_per_stage;
  if (!split.empty() && static_cast<std::int64_t>(split.size()) != job.chunks()) return;
  const double parameters = parameters_of_fullest(job), each = bytes_per_parameter(job);
  const double available = static_cast<double>(job.cluster.gpu.memory.value);
  if (parameters * each <= available) return;
  report.conflict("cluster.gpu.memory",
                  fmt::format("parameters, gradients and optimizer state alone need {:.1f} GiB on "
                              "the fullest GPU ({:.3g} parameters x {:.3g} bytes), {:.1f} GiB are "
                              "there; raise parallel.tensor, pipeline or zero, or data with zero",
                              parameters * each / kGiB, parameters, each, available / kGiB));
}

}  // namespace trainyard
