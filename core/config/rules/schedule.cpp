#include <fmt/format.h>

#include <numeric>

#include "core/config/choices.h"
#include "core/config/rules.h"

namespace trainyard {
namespace {

void check_virtual_stages(const Job& job, Report& report) {
  if (!report.usable({"parallel.virtual_stages", "schedule.pipeline", "parallel.pipeline"})) return;
  const bool interleaved = job.schedule.pipeline == Order::interleaved_1f1b;
  const std::int32_t chunks = job.parallel.virtual_stages;
  if (!interleaved && chunks > 1)
    report.conflict("parallel.virtual_stages",
                    fmt::format("virtual_stages {} need schedule.pipeline \"interleaved-1f1b\"; "
                                "with \"{}\" legal: 1",
                                chunks, choice_name(job.schedule.pipeline)));
  if (interleaved && chunks == 1)
    report.conflict("schedule.pipeline",
                    "interleaving needs virtual_stages of 2 or more; with virtual_stages 1 use "
                    "\"1f1b\"");
  if (interleaved && job.parallel.pipeline == 1)
    report.conflict("schedule.pipeline",
                    "interleaving needs a pipeline of 2 or more stages; with pipeline 1 use "
                    "\"1f1b\" and virtual_stages 1");
}

void check_interleaved_batches(const Job& job, Report& report) {
  if (!report.usable({"schedule.pipeline", "parallel.pipeline", "parallel.data",
                      "batch.global_sequences", "batch.micro_sequences"}))
    return;
  const std::int64_t step = job.parallel.data * job.batch.micro_sequences;
  if (job.schedule.pipeline != Order::interleaved_1f1b || job.batch.global_sequences % step != 0)
    return;
  const std::int64_t m = job.micro_batches(), p = job.parallel.pipeline;
  if (m % p == 0) return;
  report.conflict("batch.global_sequences",
                  fmt::format("{} micro-batches a pipeline are no multiple of pipeline {}, which "
                              "interleaving needs; nearest: {} micro-batches, that is "
                              "global_sequences {}",
                              m, p, nearest_multiples(m, p),
                              nearest_multiples(job.batch.global_sequences, p * step)));
}

void check_overlap(const Job& job, Report& report) {
  if (!report.usable({"schedule.overlap", "parallel.sequence", "parallel.tensor"})) return;
  const Overlap& overlap = job.schedule.overlap;
  if (report.usable({"schedule.pipeline", "parallel.pipeline"}) && !overlap.pipeline &&
      job.schedule.pipeline == Order::zb_2p && job.parallel.pipeline > 1)
    report.conflict("schedule.overlap",
                    "with \"zb-2p\" late stages run ahead of early ones, which they cannot while "
                    "they wait for every message to be taken; add \"pipeline\", or use \"zb-h1\"");
  if (overlap.tensor && !job.parallel.sequence)
    report.conflict("schedule.overlap",
                    "\"tensor\" runs GEMM pieces beside the all-gather and reduce-scatter of "
                    "sequence parallelism; set parallel.sequence = true with tensor above 1, or "
                    "leave it out");
  if (report.usable({"parallel.zero"}) && overlap.prefetch && job.parallel.zero == 0)
    report.conflict("schedule.overlap",
                    "\"prefetch\" runs the parameters' first all-gather early, but with zero 0 "
                    "there is none; set parallel.zero = 1, 2 or 3, or leave it out");
}

void check_tensor_chunks(const Job& job, Report& report) {
  if (!report.usable({"schedule.overlap", "schedule.tensor_chunks", "parallel.tensor",
                      "parallel.sequence", "parallel.context", "batch.sequence_length",
                      "batch.micro_sequences"}))
    return;
  if (!job.schedule.overlap.tensor || !job.parallel.sequence) return;
  const std::int64_t tokens =
      job.batch.sequence_length * job.batch.micro_sequences / job.parallel.context;
  const std::int64_t tensor = job.parallel.tensor, chunks = job.schedule.tensor_chunks;
  if (job.batch.sequence_length % (tensor * job.parallel.context) != 0 ||
      (tokens / tensor) % chunks == 0)
    return;
  report.conflict(
      "schedule.tensor_chunks",
      fmt::format("{} tokens / tensor {} = {} rows do not divide into tensor_chunks {}; "
                  "nearest: {}",
                  tokens, tensor, tokens / tensor, chunks,
                  nearest_divisors(chunks, tokens / tensor)));
}

void check_equal_layers(const Job& job, Report& report) {
  const std::int64_t layers = job.model.layers, p = job.parallel.pipeline,
                     v = job.parallel.virtual_stages, chunks = p * v;
  if (layers % chunks == 0) return;
  std::string pipelines;
  if (layers % v == 0) pipelines = fmt::format(", or pipeline {}", nearest_divisors(p, layers / v));
  report.conflict("model.layers",
                  fmt::format("layers {} do not divide into pipeline {} x virtual_stages {} = {} "
                              "chunks; nearest: layers {}{}, or give parallel.layers_per_stage",
                              layers, p, v, chunks, nearest_multiples(layers, chunks), pipelines));
}

void check_given_layers(const Job& job, Report& report) {
  const auto& split = job.parallel.layers_per_stage;
  const std::int64_t sum = std::accumulate(split.begin(), split.end(), std::int64_t{0});
  if (static_cast<std::int64_t>(split.size()) != job.chunks())
    report.conflict(
        "parallel.layers_per_stage",
        fmt::format("lists {} chunks, but pipeline {} x virtual_stages {} = {}", split.size(),
                    job.parallel.pipeline, job.parallel.virtual_stages, job.chunks()));
  if (sum != job.model.layers)
    report.conflict("parallel.layers_per_stage",
                    fmt::format("sums to {}, but the model has layers {}", sum, job.model.layers));
  // Only the embedding and the output head can fill a chunk without layers.
  const auto chunks = static_cast<std::ptrdiff_t>(split.size());
  for (std::ptrdiff_t at = 1; at + 1 < chunks; ++at)
    if (split[static_cast<std::size_t>(at)] == 0)
      report.conflict(
          "parallel.layers_per_stage",
          fmt::format("entry {} of {} is 0; only the first and the last may be", at + 1, chunks));
}

}  // namespace

void check_layers(const Job& job, Report& report) {
  if (!report.usable({"model.layers", "parallel.pipeline", "parallel.virtual_stages",
                      "parallel.layers_per_stage"}))
    return;
  if (job.parallel.layers_per_stage.empty())
    check_equal_layers(job, report);
  else
    check_given_layers(job, report);
}

void check_schedule(const Job& job, Report& report) {
  check_virtual_stages(job, report);
  check_interleaved_batches(job, report);
  check_overlap(job, report);
  check_tensor_chunks(job, report);
}

}  // namespace trainyard
