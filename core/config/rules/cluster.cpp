#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/config/choices.h"
#include "core/config/rules.h"

namespace trainyard {
namespace {

void check_world(const Job& job, Report& report) {
  if (!report.usable({"parallel.tensor", "parallel.pipeline", "parallel.data", "parallel.context",
                      "parallel.expert", "cluster.nodes", "cluster.node.gpus"}))
    return;
  const std::int64_t gpus = std::int64_t{job.cluster.nodes} * job.cluster.node.gpus;
  const bool part_of_node = job.cluster.nodes == 1 && job.gpus() < gpus;
  if (job.gpus() != gpus && !part_of_node)
    report.conflict(
        "cluster.nodes",
        fmt::format("{} nodes x {} GPUs = {}, but {} = {} ranks; nearest: {} nodes, or leave out "
                    "parallel.data or "
                    "cluster.nodes",
                    job.cluster.nodes, job.cluster.node.gpus, gpus, axes_text(job.parallel),
                    job.gpus(), (job.gpus() + job.cluster.node.gpus - 1) / job.cluster.node.gpus));
}

void check_tensor_in_node(const Job& job, Report& report) {
  if (!report.usable({"parallel.tensor", "cluster.node.gpus"})) return;
  if (job.parallel.tensor > job.cluster.node.gpus)
    report.warn("parallel.tensor",
                fmt::format("tensor {} is more than the {} GPUs of a node, so its collectives "
                            "cross the network",
                            job.parallel.tensor, job.cluster.node.gpus));
}

constexpr std::size_t kCalls = 5;  // all that the schema lets be measured

}  // namespace

void check_links(const Job& job, Report& report) {
  const NodeProfile& node = job.cluster.node;
  if (report.usable({"cluster.nodes", "cluster.node.nics", "cluster.node.nic_gbps"}) &&
      job.cluster.nodes > 1 && (node.nics == 0 || node.nic.value == 0))
    report.conflict("cluster.node.nic_gbps",
                    fmt::format("{} nodes need network cards: give cluster.node.nics and "
                                "cluster.node.nic_gbps, or cluster.preset",
                                job.cluster.nodes));
  if (report.usable({"cluster.node.nvlink_gbs", "cluster.node.pcie_gbs", "parallel.data"}) &&
      job.gpus() > 1 && node.gpus > 1 && node.nvlink.value == 0 && node.pcie.value == 0 &&
      job.cluster.measured_calls.size() < kCalls)
    report.conflict("cluster.node.nvlink_gbs",
                    "GPUs of a node need a link: give cluster.node.nvlink_gbs or "
                    "cluster.node.pcie_gbs, or cluster.preset");
}

namespace {

void check_precision(const Job& job, Report& report) {
  if (!report.usable({"training.precision", "cluster.gpu.sms"})) return;
  const GpuProfile& gpu = job.cluster.gpu;
  const struct {
    Precision precision;
    std::string_view key;
    FlopRate peak;
  } peaks[] = {{Precision::bf16, "cluster.gpu.peak_bf16_tflops", gpu.peak_bf16},
               {Precision::fp16, "cluster.gpu.peak_fp16_tflops", gpu.peak_fp16},
               {Precision::fp32, "cluster.gpu.peak_fp32_tflops", gpu.peak_fp32}};
  std::string supported, missing;
  for (const auto& each : peaks) {
    if (!report.usable({each.key})) return;
    if (each.peak.value > 0)
      supported += (supported.empty() ? "" : ", ") + std::string(choice_name(each.precision));
    else if (each.precision == job.training.precision)
      missing = each.key;
  }
  if (!missing.empty())
    report.conflict("training.precision",
                    fmt::format("GPU \"{}\" has no peak for it ({} is 0); valid here: {}", gpu.name,
                                missing, supported.empty() ? "none" : supported));
}

void check_measured_kernels(const Job& job, Report& report) {
  const GpuProfile& gpu = job.cluster.gpu;
  const std::size_t columns = std::max<std::size_t>(1, gpu.measured_threads.size());
  if (!report.usable({"cluster.gpu.measured_threads"})) return;
  if (!std::ranges::is_sorted(gpu.measured_threads))
    report.conflict("cluster.gpu.measured_threads", "the numbers of threads do not rise");
  for (const GpuProfile::MeasuredKernel& kernel : gpu.measured_kernels)
    for (const auto& [name, values] : {std::pair{"t0_us", &kernel.t0_us},
                                       {"flop_ps", &kernel.flop_ps},
                                       {"byte_ps", &kernel.byte_ps}})
      if (values->size() != columns)
        report.conflict("cluster.gpu.measured_threads",
                        fmt::format("cluster.gpu.measured_kernels.{}.{} has {} numbers, not {}",
                                    kernel.name, name, values->size(), columns));
}

bool is_measured(const GpuProfile& gpu, std::string_view name) {
  return std::ranges::find(gpu.measured_kernels, name, &GpuProfile::MeasuredKernel::name) !=
         gpu.measured_kernels.end();
}

}  // namespace

void check_cluster(const Job& job, Report& report) {
  check_world(job, report);
  check_tensor_in_node(job, report);
  check_links(job, report);
  check_precision(job, report);
  check_measured_kernels(job, report);
}

void check_software(const Job& job, Report& report) {
  if (!report.usable({"software.attention", "model.attention", "cluster.gpu.sms"})) return;
  const bool unfused = job.model.attention == AttentionImpl::unfused;
  if (is_measured(job.cluster.gpu, unfused ? "attention_scores" : "attention_forward")) return;
  if (job.model.attention == AttentionImpl::unfused) {
    if (report.usable({"cluster.gpu.batched_gemm_tflops"}) &&
        job.cluster.gpu.batched_gemm_tflops == 0)
      report.conflict("model.attention",
                      fmt::format("GPU \"{}\" has no cluster.gpu.batched_gemm_tflops, which "
                                  "unfused attention needs; valid here: flash",
                                  job.cluster.gpu.name));
    return;
  }
  std::string names;
  for (const auto& attention : job.cluster.gpu.attention) {
    const bool timed = attention.forward_tflops > 0 && attention.backward_tflops > 0;
    if (attention.name == job.software.attention && !timed)
      report.conflict("software.attention",
                      fmt::format("its profile lacks forward_tflops or backward_tflops in "
                                  "[cluster.gpu.attention.{}]",
                                  attention.name));
    if (attention.name == job.software.attention) return;
    names += (names.empty() ? "" : ", ") + attention.name;
  }
  report.conflict("software.attention",
                  fmt::format("GPU \"{}\" has no such attention kernel; valid: {}",
                              job.cluster.gpu.name, names.empty() ? "none" : names));
}

}  // namespace trainyard
