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
  FlopRate peak_bf16, peak_fp16, peak_tf32, peak_fp32;  // dense; 0: the GPU lacks it
  Bytes memory;
  Bandwidth memory_bandwidth;  // HBM, peak

  // GEMM time (tile, wave and power model):
  //   t0 + max(T_tile, flops / (power_cap * peak), bytes / (bandwidth_fraction * HBM)),
  // with T_tile and the power term divided by `sustained`.
  struct Gemm {
    double t0_us = 0, fill_us = 0;
    // efficiency of a tile of 32768, 16384, 8192, 4096 outputs
    std::array<double, 4> tile_efficiency{1, 1, 1, 1};
    double bandwidth_fraction = 1, split_k_us = 0, power_cap = 1;
    double sustained = 1;  // clock of a long run relative to the bursts the constants describe
    double input_grad_factor = 1, weight_grad_factor = 1;  // time relative to forward
    double fp8_speedup = 1;      // rate of FP8 products relative to bf16; 1: no FP8
    std::int64_t alignment = 1;  // elements; dimensions off it pay misaligned_factor
    double misaligned_factor = 1;
  } gemm;

  // T = t0 + flops / E * (1 + c / l) / occupancy^g, l = mean keys per query,
  // occupancy = min(1, blocks / (q * SMs)), blocks = batch * heads * ceil(s / 128)
  struct Attention {
    std::string name;                                // flash1, flash2, flash3, cudnn
    double forward_tflops = 0, backward_tflops = 0;  // E at head dimension 128
    double head_64 = 1, head_256 = 1;                // E at these head dimensions, relative to 128
    double half_keys = 0;                            // c
    double t0_us = 0, blocks_per_sm = 1, occupancy_exponent = 0;  // t0, q, g
    std::int64_t window_tile = 128;  // a window of w keys computes w + window_tile
  };
  std::vector<Attention> attention;
  double batched_gemm_tflops = 0;  // most that unfused attention's per-head products reach

  // T = t0 + bytes / (fraction * HBM)
  struct Memory {
    double t0_us = 0;
    double elementwise = 1, norm_forward = 1, norm_backward = 1;
    double norm_forward_unfused = 1, norm_backward_unfused = 1;
    double softmax = 1, rope = 1, optimizer = 1, embedding = 1, reduction = 1;
    double unfused_residual = 1, unfused_activation = 1;  // traffic relative to fused
    // cross-entropy: measured time of a logit, as bytes at full HBM bandwidth
    double loss_max_bytes = 2, loss_sum_bytes = 2, loss_backward_bytes = 4;
  } memory_bound;

  double host_launch_us = 0;          // host time to issue one kernel
  double graph_launch_us = 0;         // the same inside a CUDA graph
  double collective_sm_slowdown = 1;  // GEMM time factor beside a concurrent collective

  // What kernels of one cost_name() (core/program/kernel.h) took where they were measured, which
  // stands in for the models above:
  //   T = t0 + flops * flop + bytes * byte,
  // a number for each entry of measured_threads: threads of one rank's kernels, rising.
  struct MeasuredKernel {
    std::string name;
    std::vector<double> t0_us, flop_ps, byte_ps;
  };
  std::vector<std::int32_t> measured_threads;
  std::vector<MeasuredKernel> measured_kernels;
};

// One NVLink/NIC/host design, from scenarios/clusters/*.toml.
struct NodeProfile {
  std::int32_t gpus = 8;
  Bandwidth nvlink;  // per GPU and direction, usable; 0: GPUs meet over PCIe
  std::int32_t nics = 8;
  Bandwidth nic;  // per NIC and direction, nominal
  double nic_efficiency = 1;
  Bandwidth pcie;               // per GPU and direction, usable
  double load_sequence_us = 0;  // one loader worker reads and prepares one sequence
  double gpu_spread = 0;        // relative standard deviation of kernel times from GPU to GPU
  std::int32_t cores = 0;       // that all ranks of the node compute with; 0: each has its own GPU
};

// What a collective or message took where it was measured, which stands in for NCCL's models. Each
// rank works for `work`, sharing the node's cores with what others do there; when the last one has,
// `wait` more passes in which it needs no core:
//   work = work_us + peers * work_peer_us + moved * work_byte_ns, wait alike,
// where peers is the other ranks of the group, and moved the bytes that a rank receives on average.
struct MeasuredCall {
  std::string op;  // of a collective; send
  double work_us = 0, work_peer_us = 0, work_byte_ns = 0;
  double wait_us = 0, wait_peer_us = 0, wait_byte_ns = 0;
};

// Switch tiers above the NICs.
struct FabricProfile {
  std::string kind = "clos";  // clos | single-switch (a rail is one switch for all nodes)
  std::int32_t rails = 8;     // NIC i of a node reaches ToR i of its ToR set
  std::int32_t nodes_per_tor = 64;
  std::int32_t tors_per_pod = 32;
  std::int32_t tor_uplinks = 32;  // of one ToR; a pod's add up to its way into the core
  Bandwidth uplink;               // per uplink and direction
  double oversubscription = 1;    // of that way: 7 means one seventh leads on
  bool adaptive_routing = false;  // switches spread packets by load: no ECMP collisions
  bool pinned = false;            // paths by the target's place instead of hashes
  bool polarised = false;         // all switches hash alike: a tier's choice settles the next one's
  double hop_latency_us = 0;      // per switch traversed beyond the first
  double base_latency_us = 0;     // NIC to NIC in one ToR, including host and PCIe
  Bytes switch_buffer;            // shared by a switch's ports; 0: as its cards' rate asks for
  double pfc_share = 0.125;       // of what is free there, until a port pauses its neighbour
  bool pfc = true;                // without it, what finds no room is dropped
};

// How NCCL moves data. Latencies are microseconds as in its src/graph/tuning.cc, calibrated on
// measured collectives; the sources stand in scenarios/clusters.
struct NcclProfile {
  std::string version;
  // base + steps * step, data at `fraction` of the link.
  struct Protocol {
    double base_us = 0, nvlink_us = 0;        // fixed; per step inside a node
    double ring_net_us = 0, tree_net_us = 0;  // per step between nodes, wire excluded
    double fraction = 1;
    double max_gbs = 0;  // 0: no limit
  } ll, ll128, simple;
  double launch_us = 0;      // added to every collective: launch and synchronisation
  double in_training = 1;    // time of a collective or message amid a step, relative to alone
  double tree_fraction = 1;  // bandwidth of a tree relative to a ring's
  // All-reduce in the NVLink switches (NVLS) over whole nodes; 0 GB/s: none.
  double nvls_gbs = 0, nvls_us = 0, nvls_net_us = 0;
  double all_to_all_us = 0, all_to_all_peer_us = 0, all_to_all_fraction = 1;
  double p2p_intra_us = 0, p2p_inter_us = 0;  // fixed cost of a send/receive
};

}  // namespace trainyard
