#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/types.h"

namespace trainyard {

// Constants of one GPU model. Loaded from scenarios/gpus/*.toml, where each carries its source.
struct GpuProfile {
  std::string name;
  std::int64_t sms = 0;
  FlopRate peak_bf16, peak_fp16, peak_tf32, peak_fp32;  // dense
  Bytes memory;
  Bandwidth memory_bandwidth;  // HBM, peak
  Bytes l2;

  // GEMM time (tile, wave and power model):
  //   t0 + max(T_tile, flops / (power_cap * peak), bytes / (bandwidth_fraction * HBM))
  struct Gemm {
    double t0_us = 0, fill_us = 0;
    // efficiency of a tile of 32768, 16384, 8192, 4096 outputs
    std::array<double, 4> tile_efficiency{1, 1, 1, 1};
    double bandwidth_fraction = 1, split_k_us = 0, power_cap = 1;
    double input_grad_factor = 1, weight_grad_factor = 1;  // time relative to forward
    std::int64_t alignment = 1;  // elements; dimensions off it pay misaligned_factor
    double misaligned_factor = 1;
  } gemm;

  // T = t0 + flops / E * (1 + c / l) / occupancy^g, l = mean keys per query,
  // occupancy = min(1, blocks / (q * SMs)), blocks = batch * heads * ceil(s / 128)
  struct Attention {
    std::string name;  // flash1, flash2, flash3, cudnn
    struct Direction {
      double tflops = 0;     // E
      double half_keys = 0;  // c
    } forward, backward;
    double t0_us = 0, q = 1, g = 0;
    std::int64_t window_tile = 128;  // a window of w keys computes w + window_tile
  };
  std::vector<Attention> attention;
  double batched_gemm_tflops = 0;  // unfused attention's per-head products

  // T = t0 + bytes / (fraction * HBM)
  struct Memory {
    double t0_us = 0;
    double elementwise = 1, norm_forward = 1, norm_backward = 1, norm_backward_unfused = 1;
    double softmax = 1, rope = 1, loss = 1, optimizer = 1, embedding = 1, reduction = 1;
    double unfused_residual = 1, unfused_activation = 1;  // traffic relative to fused
  } memory_bound;

  double host_launch_us = 0;          // host time to issue one kernel
  double graph_launch_us = 0;         // the same inside a CUDA graph
  double collective_sm_slowdown = 1;  // GEMM time factor beside a concurrent collective

  std::string architecture;  // volta, ampere, hopper, blackwell: NCCL's constants
};

// One NVLink/NIC/host design, from scenarios/clusters/*.toml.
struct NodeProfile {
  std::int32_t gpus = 8;
  Bandwidth nvlink;  // per GPU and direction, usable
  std::int32_t nics = 8;
  Bandwidth nic;  // per NIC and direction, nominal
  double nic_efficiency = 1;
  Bandwidth pcie;               // per GPU and direction, usable
  std::string cpu = "amd";      // amd, intel: NCCL's network overhead
  double load_sequence_us = 0;  // one loader worker reads and prepares one sequence
};

// Switch tiers above the NICs. One tier: a single switch for all.
struct FabricProfile {
  std::string kind = "clos";  // clos | single-switch
  std::int32_t rails = 8;     // NIC i of a node reaches ToR i of its ToR set
  std::int32_t nodes_per_tor = 64;
  std::int32_t tors_per_pod = 32;
  std::int32_t tor_uplinks = 32, aggregation_uplinks = 32;
  Bandwidth uplink;             // per uplink and direction
  double oversubscription = 1;  // at the core tier
  double hop_latency_us = 0;    // per switch traversed
  double base_latency_us = 0;   // NIC to NIC in one ToR, including host and PCIe
};

// NCCL's tuning constants [LL, LL128, Simple], microseconds and GB/s (src/graph/tuning.cc).
struct NcclProfile {
  std::string version;
  std::array<double, 3> ring_base_us{}, tree_base_us{};
  std::array<double, 3> ring_nvlink_us{}, tree_nvlink_us{};
  std::array<double, 3> ring_net_us{}, tree_net_us{};
  double launch_us = 0;  // added to every collective: launch and synchronisation
  double intra_channels = 0, intra_channel_gbs = 0;
  double inter_channels = 0, inter_channel_gbs = 0;
  std::array<double, 3> ll_max_gbs{};  // 1, 2, >= 4 nodes
  double ring_ll128_channel_gbs = 0;
  std::array<double, 3> tree_ll128_channel_gbs{}, tree_simple_channel_gbs{};
  double nvls_efficiency = 0;                 // 0: no NVLink SHARP
  double p2p_intra_us = 0, p2p_inter_us = 0;  // fixed cost of a send/receive
};

}  // namespace trainyard
