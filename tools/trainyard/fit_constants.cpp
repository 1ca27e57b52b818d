#include "tools/trainyard/fit_constants.h"

#include <fmt/core.h>

namespace trainyard {

std::vector<FitConstant> gemm_constants() {
  const auto at = [](auto member) {
    return [member](Cluster& c) -> double& { return c.gpu.gemm.*member; };
  };
  using Gemm = GpuProfile::Gemm;
  std::vector<FitConstant> out{
      {"cluster.gpu.gemm.t0_us", at(&Gemm::t0_us), 0, 100},
      {"cluster.gpu.gemm.fill_us", at(&Gemm::fill_us), 0, 100},
      {"cluster.gpu.gemm.bandwidth_fraction", at(&Gemm::bandwidth_fraction), 0.01, 1},
      {"cluster.gpu.gemm.split_k_us", at(&Gemm::split_k_us), 0, 100},
      {"cluster.gpu.gemm.power_cap", at(&Gemm::power_cap), 0.01, 1},
      {"cluster.gpu.gemm.weight_grad_factor", at(&Gemm::weight_grad_factor), 1, 10}};
  for (std::size_t i = 0; i < 4; ++i)
    out.push_back({fmt::format("cluster.gpu.gemm.tile_efficiency.{}", i),
                   [i](Cluster& c) -> double& { return c.gpu.gemm.tile_efficiency.at(i); }, 0.01,
                   2});
  return out;
}

std::vector<FitConstant> attention_constants(const Job& job) {
  using Attention = GpuProfile::Attention;
  std::size_t at = 0;
  const auto& all = job.cluster.gpu.attention;
  while (at < all.size() && all[at].name != job.software.attention) ++at;
  std::vector<FitConstant> out;
  if (at == all.size()) return out;
  const auto add = [&](const char* name, double Attention::*member, double low, double high) {
    out.push_back({fmt::format("cluster.gpu.attention.{}.{}", job.software.attention, name),
                   [at, member](Cluster& c) -> double& { return c.gpu.attention.at(at).*member; },
                   low, high});
  };
  add("forward_tflops", &Attention::forward_tflops, 1, 1e4);
  add("backward_tflops", &Attention::backward_tflops, 1, 1e4);
  add("head_64", &Attention::head_64, 0.1, 2);
  add("head_256", &Attention::head_256, 0.1, 2);
  add("half_keys", &Attention::half_keys, 0, 1e4);
  add("t0_us", &Attention::t0_us, 0, 100);
  add("blocks_per_sm", &Attention::blocks_per_sm, 0.1, 100);
  add("occupancy_exponent", &Attention::occupancy_exponent, 0, 1);
  return out;
}

std::vector<FitConstant> memory_constants() {
  using Memory = GpuProfile::Memory;
  std::vector<FitConstant> out;
  const auto add = [&](const char* name, double Memory::*member, double low, double high) {
    out.push_back({std::string("cluster.gpu.memory_bound.") + name,
                   [member](Cluster& c) -> double& { return c.gpu.memory_bound.*member; }, low,
                   high});
  };
  add("t0_us", &Memory::t0_us, 0, 100);
  add("elementwise", &Memory::elementwise, 0.01, 2);
  add("norm_forward", &Memory::norm_forward, 0.01, 2);
  add("norm_backward", &Memory::norm_backward, 0.01, 2);
  add("norm_forward_unfused", &Memory::norm_forward_unfused, 0.01, 2);
  add("norm_backward_unfused", &Memory::norm_backward_unfused, 0.01, 2);
  add("softmax", &Memory::softmax, 0.01, 2);
  add("rope", &Memory::rope, 0.01, 2);
  add("embedding", &Memory::embedding, 0.01, 2);
  add("loss_max_bytes", &Memory::loss_max_bytes, 0.1, 1000);
  add("loss_sum_bytes", &Memory::loss_sum_bytes, 0.1, 1000);
  add("loss_backward_bytes", &Memory::loss_backward_bytes, 0.1, 1000);
  return out;
}

std::vector<FitConstant> nccl_constants() {
  using Protocol = NcclProfile::Protocol;
  std::vector<FitConstant> out;
  const auto add = [&](const std::string& name, double NcclProfile::*member, double high) {
    out.push_back({"cluster.nccl." + name,
                   [member](Cluster& c) -> double& { return c.nccl.*member; }, 0, high});
  };
  add("launch_us", &NcclProfile::launch_us, 1000);
  add("tree_fraction", &NcclProfile::tree_fraction, 1);
  add("nvls_gbs", &NcclProfile::nvls_gbs, 1e4);
  add("nvls_us", &NcclProfile::nvls_us, 1000);
  add("all_to_all_us", &NcclProfile::all_to_all_us, 1000);
  add("all_to_all_peer_us", &NcclProfile::all_to_all_peer_us, 100);
  add("all_to_all_fraction", &NcclProfile::all_to_all_fraction, 1);
  const struct {
    const char* name;
    Protocol NcclProfile::*protocol;
  } protocols[] = {
      {"ll", &NcclProfile::ll}, {"ll128", &NcclProfile::ll128}, {"simple", &NcclProfile::simple}};
  const struct {
    const char* name;
    double Protocol::*member;
    double high;
  } members[] = {{"base_us", &Protocol::base_us, 1000},
                 {"nvlink_us", &Protocol::nvlink_us, 100},
                 {"ring_net_us", &Protocol::ring_net_us, 1000},
                 {"tree_net_us", &Protocol::tree_net_us, 1000},
                 {"fraction", &Protocol::fraction, 1}};
  for (const auto& [name, protocol] : protocols)
    for (const auto& [part, member, high] : members)
      out.push_back({fmt::format("cluster.nccl.{}.{}", name, part),
                     [protocol = protocol, member = member](Cluster& c) -> double& {
                       return c.nccl.*protocol.*member;
                     },
                     0, high});
  return out;
}

}  // namespace trainyard
