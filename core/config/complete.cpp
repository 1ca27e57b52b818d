#include "core/config/complete.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/config/rules.h"

namespace trainyard {
namespace {

constexpr std::int64_t kMostRanks = std::int64_t{1} << 24;

void complete_heads(Job& job, Report& report) {
  Model& m = job.model;
  if (!report.given("model.kv_heads")) {
    m.kv_heads = m.heads;
    if (!report.usable({"model.heads"})) report.spoil("model.kv_heads");
  }
  if (report.given("model.head_dim")) return;
  if (!report.usable({"model.hidden", "model.heads"})) return report.spoil("model.head_dim");
  if (m.hidden % m.heads == 0) return void(m.head_dim = m.hidden / m.heads);
  report.conflict("model.heads",
                  fmt::format("heads {} do not divide hidden {}; nearest: heads {}, or give "
                              "model.head_dim",
                              m.heads, m.hidden, nearest_divisors(m.heads, m.hidden)));
  report.spoil("model.head_dim");
}

void complete_ffn(Job& job, Report& report) {
  Model& m = job.model;
  if (report.given("model.ffn")) return;
  if (!report.usable({"model.hidden", "model.activation", "model.ffn"}))
    return report.spoil("model.ffn");
  if (m.activation == Activation::gelu) return void(m.ffn = 4 * m.hidden);
  // Llama takes 2/3 of 4 hidden, rounded up to a multiple of 256 (arXiv 2302.13971, section 2.2).
  const std::int64_t usual = (8 * m.hidden / 3 + 255) / 256 * 256;
  report.refuse("model.ffn", fmt::format("is missing; with activation swiglu it has no default; "
                                         "Llama would take {} for hidden {}",
                                         usual, m.hidden));
}

// Ranks of one data replica, stopped at kMostRanks + 1 so that no product overflows.
std::int64_t ranks_of_replica(const Job& job) {
  const Parallel& p = job.parallel;
  std::int64_t ranks = 1;
  for (std::int32_t size : {p.tensor, p.pipeline, p.context, p.expert})
    ranks = std::min(ranks * size, kMostRanks + 1);
  return ranks;
}

// parallel.data from the number of GPUs.
void infer_data(Job& job, Report& report) {
  const std::int64_t gpus = std::int64_t{job.cluster.nodes} * job.cluster.node.gpus;
  const std::int64_t replica = ranks_of_replica(job);
  if (gpus % replica != 0 || gpus / replica > kMostRanks) {
    report.conflict(
        "cluster.nodes",
        fmt::format(
            "{} nodes x {} GPUs = {} ranks are no multiple of tensor {} x "
            "pipeline {}{} = {}, so parallel.data has no value; nearest: {} GPUs",
            job.cluster.nodes, job.cluster.node.gpus, gpus, job.parallel.tensor,
            job.parallel.pipeline,
            job.parallel.context > 1 ? fmt::format(" x context {}", job.parallel.context) : "",
            replica, nearest_multiples(gpus, replica)));
    return report.spoil("parallel.data");
  }
  job.parallel.data = static_cast<std::int32_t>(gpus / replica);
}

// cluster.nodes from the number of ranks; a job of less than a node takes part of one.
void infer_nodes(Job& job, Report& report) {
  const std::int64_t ranks = ranks_of_replica(job) * job.parallel.data;
  const std::int64_t gpus = job.cluster.node.gpus;
  if (ranks < gpus) return void(job.cluster.nodes = 1);
  if (ranks % gpus == 0 && ranks <= kMostRanks)
    return void(job.cluster.nodes = static_cast<std::int32_t>(ranks / gpus));
  if (ranks % gpus != 0)
    report.conflict(
        "parallel.data",
        fmt::format("{} = {} ranks do not fill nodes of {} GPUs; nearest: {} ranks",
                    axes_text(job.parallel), ranks, gpus, nearest_multiples(ranks, gpus)));
  report.spoil("cluster.nodes");
}

}  // namespace

void complete_world(Job& job, Report& report) {
  const bool sizes_known =
      report.usable({"parallel.tensor", "parallel.pipeline", "parallel.context", "parallel.expert",
                     "parallel.data", "cluster.nodes", "cluster.node.gpus"});
  if (!sizes_known) return report.spoil("parallel.data"), report.spoil("cluster.nodes");
  if (!report.given("parallel.data") && report.given("cluster.nodes")) infer_data(job, report);
  if (report.usable({"parallel.data"})) {
    const std::int64_t replica = ranks_of_replica(job);
    if (replica > kMostRanks || replica * job.parallel.data > kMostRanks) {
      report.conflict("parallel.tensor", fmt::format("tensor x pipeline x data makes more than {} "
                                                     "ranks",
                                                     kMostRanks));
      return report.spoil("parallel.data"), report.spoil("cluster.nodes");
    }
    if (!report.given("cluster.nodes")) infer_nodes(job, report);
  }
}

namespace {

// Peaks of one core become those of a rank's share of the cores of its node.
void complete_share_of_cores(Job& job, const Report& report) {
  GpuProfile& gpu = job.cluster.gpu;
  if (job.cluster.node.cores == 0 || !report.usable({"parallel.data", "cluster.node.gpus"})) return;
  const std::int32_t ranks = std::max(1, std::min(job.gpus(), job.cluster.node.gpus));
  for (FlopRate* peak : {&gpu.peak_bf16, &gpu.peak_fp16, &gpu.peak_tf32, &gpu.peak_fp32})
    peak->value *= static_cast<double>(job.cluster.node.cores) / ranks;
}

}  // namespace

void complete(Job& job, Report& report) {
  complete_heads(job, report);
  complete_ffn(job, report);
  complete_world(job, report);
  complete_share_of_cores(job, report);
}

}  // namespace trainyard
