#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/config/rules.h"

namespace trainyard {
namespace {

// A kernel says in a byte how many ranks share a sequence.
constexpr std::int64_t kMostContext = 255;

// Every dimension that is cut into `tensor` pieces.
void check_tensor(const Job& job, Report& report) {
  const Model& m = job.model;
  const std::int64_t tensor = job.parallel.tensor;
  const struct {
    std::string_view key, name;
    std::int64_t size;
  } cuts[] = {{"model.heads", "heads", m.heads},
              {"model.hidden", "hidden", m.hidden},
              {"model.ffn", "ffn", m.ffn}};
  for (const auto& cut : cuts) {
    if (!report.usable({cut.key, "parallel.tensor"}) || cut.size % tensor == 0) continue;
    report.conflict(
        "parallel.tensor",
        fmt::format("{} {} do not divide into tensor {} equal parts; nearest: {} {}, or "
                    "tensor {}",
                    cut.name, cut.size, tensor, cut.name, nearest_multiples(cut.size, tensor),
                    nearest_divisors(tensor, cut.size)));
  }
  if (!report.usable({"model.heads", "model.kv_heads", "parallel.tensor"})) return;
  if (m.kv_heads == m.heads || m.kv_heads % tensor == 0) return;
  report.conflict("parallel.tensor",
                  fmt::format("kv_heads {} do not divide into tensor {} equal parts, and copies of "
                              "key and value heads are not available; legal tensor: {}",
                              m.kv_heads, tensor, divisors_of_both(m.kv_heads, m.heads)));
}

void check_sequence(const Job& job, Report& report) {
  if (!report.usable({"parallel.sequence", "parallel.tensor", "batch.sequence_length"})) return;
  if (!job.parallel.sequence) return;
  const std::int64_t tensor = job.parallel.tensor, length = job.batch.sequence_length;
  if (tensor == 1)
    report.conflict("parallel.sequence",
                    "sequence parallelism splits over the tensor ranks, but tensor is 1; set "
                    "sequence = false, or tensor above 1");
  else if (length % tensor != 0)
    report.conflict("parallel.sequence",
                    fmt::format("sequence_length {} does not divide into tensor {} equal parts; "
                                "nearest: sequence_length {}, or tensor {}",
                                length, tensor, nearest_multiples(length, tensor),
                                nearest_divisors(tensor, length)));
}

// Context ranks have two pieces of each sequence, which sequence parallelism splits once more.
void check_context(const Job& job, Report& report) {
  const std::int64_t context = job.parallel.context, length = job.batch.sequence_length;
  if (!report.usable({"parallel.context"}) || context == 1) return;
  if (report.usable({"model.attention"}) && job.model.attention == AttentionImpl::unfused)
    report.conflict("parallel.context",
                    "context parallelism needs fused attention; set model.attention = \"flash\", "
                    "or context = 1");
  if (context > kMostContext)
    report.conflict("parallel.context", fmt::format("{} is more than the {} context ranks there "
                                                    "can be; nearest: {}",
                                                    context, kMostContext, kMostContext));
  if (!report.usable({"batch.sequence_length", "parallel.sequence", "parallel.tensor"})) return;
  const std::int64_t tensor = job.parallel.sequence ? job.parallel.tensor : 1;
  const std::int64_t step = std::lcm(2 * context, context * tensor);
  if (length % step != 0)
    report.conflict(
        "parallel.context",
        fmt::format("sequence_length {} does not divide into 2 x context {} equal pieces{}; "
                    "nearest: sequence_length {}",
                    length, context,
                    tensor > 1 ? fmt::format(", and into context x tensor {} = {} equal parts",
                                             tensor, context * tensor)
                               : "",
                    nearest_multiples(length, step)));
}

void check_axes_to_come(const Job& job, Report& report) {
  if (report.usable({"parallel.expert"}) && job.parallel.expert > 1)
    report.conflict("parallel.expert", "this axis is not available yet; legal: 1");
}

void check_batch(const Job& job, Report& report) {
  if (!report.usable({"batch.global_sequences", "batch.micro_sequences", "parallel.data"})) return;
  const std::int64_t step = job.parallel.data * job.batch.micro_sequences;
  const std::int64_t global = job.batch.global_sequences;
  if (global % step != 0)
    report.conflict("batch.global_sequences",
                    fmt::format("global_sequences {} are no multiple of data {} x micro_sequences "
                                "{} = {}; nearest: {}",
                                global, job.parallel.data, job.batch.micro_sequences, step,
                                nearest_multiples(global, step)));
}

void check_placement(const Job& job, Report& report) {
  const auto& placement = job.parallel.placement;
  if (placement.empty() ||
      !report.usable({"parallel.placement", "parallel.data", "cluster.nodes", "cluster.node.gpus"}))
    return;
  const std::int64_t slots = std::int64_t{job.cluster.nodes} * job.cluster.node.gpus;
  if (static_cast<std::int64_t>(placement.size()) != job.gpus())
    report.conflict("parallel.placement",
                    fmt::format("lists {} slots for {} ranks", placement.size(), job.gpus()));
  auto sorted = placement;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.back() >= slots)
    report.conflict(
        "parallel.placement",
        fmt::format("names slot {}, but {} nodes x {} GPUs have slots 0 to {}", sorted.back(),
                    job.cluster.nodes, job.cluster.node.gpus, slots - 1));
  if (auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    report.conflict("parallel.placement", fmt::format("gives slot {} to two ranks", *twice));
}

}  // namespace

void check_parallel(const Job& job, Report& report) {
  check_axes_to_come(job, report);
  check_tensor(job, report);
  check_sequence(job, report);
  check_context(job, report);
  check_batch(job, report);
  check_placement(job, report);
}

}  // namespace trainyard
