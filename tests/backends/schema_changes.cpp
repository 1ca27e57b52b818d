#include "tests/backends/schema_changes.h"

#include <utility>

namespace trainyard {
namespace {

std::vector<Change> model_changes() {
  return {{"cluster", "model.layers=32", Effect::slower},
          {"cluster", "model.hidden=8192", Effect::slower},
          {"cluster", "model.heads=64", Effect::differs},
          {"cluster", "model.kv_heads=8", Effect::faster},
          {"cluster", "model.head_dim=64", Effect::faster},
          {"cluster", "model.ffn=8192", Effect::faster},
          {"cluster", "model.vocab=200000", Effect::slower},
          {"cluster", "model.window=256", Effect::faster},
          {"cluster", "model.block=parallel", Effect::faster},
          {"cluster", "model.norm=rmsnorm", Effect::less_memory},
          {"cluster", "model.activation=swiglu", Effect::slower},
          {"cluster", "model.position=rope", Effect::less_memory},
          {"cluster", "model.attention=unfused", Effect::slower},
          {"cluster", "model.tied=false", Effect::differs},

          {"cluster", "model.bias=false", Effect::less_memory},
          {"cluster", "model.dropout=0.1", Effect::slower}};
}

std::vector<Change> real_run_changes() {
  std::vector<Change> changes;
  for (const char* set : {"training.steps=7",
                          "training.learning_rate=1",
                          "training.min_learning_rate=1e-5",
                          "training.learning_rate_schedule=linear",
                          "training.warmup_steps=5",
                          "training.weight_decay=0.5",
                          "training.beta1=0.5",
                          "training.beta2=0.5",
                          "training.epsilon=1e-3",
                          "training.initial_loss_scale=2",
                          "training.loss_scale_window=3",
                          "data.files=[\"a.bin\"]",
                          "data.format=bytes",
                          "data.validation=0.5",
                          "data.separate_documents=true",
                          "run.log_steps=3",
                          "run.evaluation_steps=3",
                          "run.evaluation_sequences=8",
                          "run.checkpoint_steps=2",
                          "run.keep_checkpoints=1",
                          "run.keep_best=false",
                          "run.timeout_s=1",
                          "run.threads=2",
                          "run.bind_to_cores=false",
                          "run.cuda_graphs=true",
                          "run.attention=own",
                          "run.repeatable=false"})
    changes.push_back({"cluster", set, Effect::none});
  return changes;
}

std::vector<Change> transport_changes() {
  return {{"outage", "network.ib_timeout=14", Effect::faster},
          {"outage", "network.ib_retry_count=0", Effect::differs},
          {"outage", "network.adaptive_retransmission=true", Effect::faster},
          {"outage", "network.send_window=1TiB", Effect::faster},
          {"outage", "network.mtu=256", Effect::slower}};
}

std::vector<Change> software_changes() {
  return {{"cluster", "software.attention=flash1", Effect::slower},
          {"cluster", "software.fused_norm=false", Effect::slower},
          {"cluster", "software.fused_residual=false", Effect::slower},
          {"cluster", "software.fused_activation=false", Effect::slower},
          {"cluster", "software.fused_gradient_sum=false", Effect::slower},
          {"cluster", "software.fp32_gradients=false", Effect::faster},
          {"all-reduce", "software.scattered_messages=true", Effect::faster},
          {"cluster", "software.launch_blocking_us=50", Effect::slower},
          {"fp8 ready", "software.fp8_linear=true", Effect::faster},
          {"fp8", "software.fused_casts=true", Effect::faster},
          {"tiny", "software.cuda_graphs=true", Effect::faster},
          {"cluster", "software.garbage_collection_ms=50", Effect::slower}};
}

std::vector<Change> job_changes() {
  return {
      {"cluster", "parallel.tensor=4", Effect::differs},
      {"cluster", "parallel.pipeline=2", Effect::differs},
      {"cluster", "parallel.data=4", Effect::slower},
      {"cluster", "parallel.context=2", Effect::faster},
      {"cluster", "parallel.expert=2", Effect::refused},
      {"interleaved", "parallel.virtual_stages=4", Effect::faster},
      {"cluster", "parallel.sequence=false", Effect::more_memory},
      {"cluster", "parallel.zero=0", Effect::more_memory},
      {"cluster", "parallel.order=data-pipeline-tensor", Effect::slower},
      {"cluster", "parallel.layers_per_stage=[7,4,3,2]", Effect::slower},
      {"two nodes", "parallel.placement=[0,8,1,9,2,10,3,11,4,12,5,13,6,14,7,15]", Effect::slower},
      {"cluster", "batch.global_sequences=128", Effect::slower},
      {"cluster", "batch.micro_sequences=2", Effect::more_memory},
      {"cluster", "batch.sequence_length=4096", Effect::slower},
      {"cluster", "training.optimizer=lamb", Effect::slower},
      {"cluster", "training.precision=fp32", Effect::slower},
      {"cluster", "training.recompute=full", Effect::less_memory},
      {"cluster", "training.clip=0", Effect::faster},
      {"cluster", "training.vocab_divisible_by=2048", Effect::slower},
      {"cluster", "training.total_tokens=2e9", Effect::differs},
      {"cluster", "training.flops=causal", Effect::differs},
      {"cluster", "schedule.pipeline=gpipe", Effect::more_memory},
      {"cluster", "schedule.overlap=[\"tensor\"]", Effect::differs},
      {"interleaved", "schedule.overlap=[\"pipeline\"]", Effect::faster},
      {"interleaved", "schedule.overlap=[\"data\"]", Effect::faster},
      {"cluster", "schedule.overlap=[\"data_loading\"]", Effect::faster},
      {"overlap", "schedule.tensor_chunks=16", Effect::slower},
      {"wide", "network.model=ideal", Effect::faster},
      {"wide", "network.model=flow", Effect::differs},
      {"wide", "network.model=packet", Effect::refused},
      {"flows", "network.congestion_control=dcqcn", Effect::slower},
      {"packets", "network.congestion_control=dcqcn", Effect::slower},
      {"marked packets", "network.dcqcn_parameters=paper", Effect::differs},
      {"wide", "network.qps_per_connection=16", Effect::faster},
      {"replayed", "measured.forward_ms=[50]", Effect::slower},
      {"replayed", "measured.backward_ms=[100]", Effect::slower},
      {"zero-bubble", "measured.weight_grad_ms=[50]", Effect::slower},
      {"overlap", "schedule.pipeline=zb-2p", Effect::more_memory},
      {"cluster", "measured.pipeline_transfer_ms=5", Effect::slower},
      {"cluster", "measured.tensor_collective_ms=5", Effect::slower},
      {"cluster", "measured.gradient_reduce_scatter_ms=1000", Effect::slower},
      {"cluster", "measured.parameter_all_gather_ms=1000", Effect::slower},
      {"cluster", "measured.embedding_all_reduce_ms=1000", Effect::slower},
      {"cluster", "measured.gradient_norm_ms=1000", Effect::slower},
      {"cluster", "measured.optimizer_ms=1000", Effect::slower},
      {"cluster", "measured.data_loading_ms=1000", Effect::slower},
      {"cluster", "faults.list=[\"slow rank=3 factor=1.5\"]", Effect::slower}};
}

std::vector<Change> cluster_changes() {
  return {{"cluster", "cluster.preset=selene", Effect::differs},
          {"cluster", "cluster.nodes=7", Effect::refused},
          {"cluster", "cluster.node.gpus=4", Effect::slower},
          {"cluster", "cluster.node.nvlink_gbs=60", Effect::slower},
          {"cluster", "cluster.node.nics=2", Effect::slower},
          {"cluster", "cluster.node.nic_gbps=50", Effect::slower},
          {"cluster", "cluster.node.nic_efficiency=0.3", Effect::slower},
          {"cluster", "cluster.node.pcie_gbs=0.01", Effect::slower},
          {"cluster", "cluster.node.load_sequence_us=20000", Effect::slower},
          {"cluster", "cluster.node.gpu_spread=0.05", Effect::slower},
          {"wide", "cluster.fabric.kind=single-switch", Effect::faster},
          {"wide", "cluster.fabric.rails=1", Effect::differs},
          {"wide", "cluster.fabric.nodes_per_tor=1", Effect::differs},
          {"wide", "cluster.fabric.tors_per_pod=8", Effect::differs},
          {"wide", "cluster.fabric.tor_uplinks=1", Effect::slower},
          {"wide", "cluster.fabric.uplink_gbps=50", Effect::slower},
          {"wide", "cluster.fabric.oversubscription=1000", Effect::differs},
          {"wide", "cluster.fabric.adaptive_routing=true", Effect::faster},
          {"wide", "cluster.fabric.polarised=true", Effect::slower},
          {"flows", "cluster.fabric.pinned=true", Effect::differs},
          {"wide", "cluster.fabric.hop_latency_us=100", Effect::slower},
          {"wide", "cluster.fabric.base_latency_us=100", Effect::slower},
          {"dropped packets", "cluster.fabric.switch_buffer=0MiB", Effect::faster},
          {"packets", "cluster.fabric.pfc_share=0.001", Effect::slower},
          {"packets", "cluster.fabric.pfc=false", Effect::slower},
          {"cluster", "cluster.nccl.launch_us=100", Effect::slower},
          {"cluster", "cluster.nccl.in_training=2", Effect::slower},
          {"all-reduce", "cluster.nccl.tree_fraction=0.01", Effect::differs},
          {"hopper", "cluster.nccl.nvls_gbs=5000", Effect::faster},
          {"hopper", "cluster.nccl.nvls_us=0", Effect::faster},
          {"hopper", "cluster.nccl.nvls_net_us=5000", Effect::slower},
          {"inside", "cluster.nccl.p2p_intra_us=1000", Effect::slower},
          {"cluster", "cluster.nccl.p2p_inter_us=1000", Effect::slower},
          {"cluster", "cluster.gpu.preset=a100-sxm-40", Effect::slower},
          {"cluster", "cluster.gpu.sms=54", Effect::differs},
          {"cluster", "cluster.gpu.peak_bf16_tflops=156", Effect::slower},
          {"half", "cluster.gpu.peak_fp16_tflops=156", Effect::slower},
          {"full", "cluster.gpu.peak_tf32_tflops=78", Effect::slower},
          {"single", "cluster.gpu.peak_fp32_tflops=10", Effect::slower},
          {"cluster", "cluster.gpu.memory=100MiB", Effect::refused},
          {"cluster", "cluster.gpu.memory_bandwidth_gbs=500", Effect::slower},
          {"unfused", "cluster.gpu.batched_gemm_tflops=20", Effect::slower},
          {"tiny", "cluster.gpu.host_launch_us=50", Effect::slower},
          {"graphs", "cluster.gpu.graph_launch_us=50", Effect::slower},
          {"overlap", "cluster.gpu.collective_sm_slowdown=2", Effect::slower}};
}

// Costs of a profile that was measured on the machine itself.
std::vector<Change> measured_changes() {
  std::vector<Change> all;
  const auto add = [&](const std::string& key, const char* value, Effect effect) {
    all.push_back({"measured", key + "=" + value, effect});
  };
  for (const char* key : {"t0_us", "flop_ps", "byte_ps"})
    add("cluster.gpu.measured_kernels.gemm_forward." + std::string(key), "[100]", Effect::slower);
  for (const char* key :
       {"work_us", "work_peer_us", "work_byte_ns", "wait_us", "wait_peer_us", "wait_byte_ns"})
    add("cluster.measured_calls.all_gather." + std::string(key), "1000", Effect::slower);
  add("cluster.node.cores", "1", Effect::slower);
  add("cluster.gpu.measured_threads", "[1,2]", Effect::refused);
  add("cluster.profile", "missing.toml", Effect::refused);
  return all;
}

// Constants of a cost model, tenfold (times) or a tenth (rates).
std::vector<Change> constant_changes() {
  std::vector<Change> all;
  const auto add = [&](const char* base, const std::string& key, const char* value, Effect effect) {
    all.push_back({base, key + "=" + value, effect});
  };
  // A protocol, and a base whose collectives inside nodes take it.
  for (const auto& [protocol, taking] :
       {std::pair{"ll", "all-reduce"}, {"ll128", "short"}, {"simple", "cluster"}}) {
    const std::string prefix = std::string("cluster.nccl.") + protocol + ".";
    for (const char* key : {"base_us", "tree_net_us"})
      add("all-reduce", prefix + key, "0", Effect::faster);
    add(taking, prefix + "nvlink_us", "0", Effect::faster);
    add("tiny and wide", prefix + "ring_net_us", "0", Effect::faster);
    add("tiny", prefix + "fraction", "0.0001", Effect::slower);
    add("tiny", prefix + "max_gbs", "0.0001", Effect::slower);
  }
  const std::string gemm = "cluster.gpu.gemm.";
  add("cluster", gemm + "t0_us", "100", Effect::slower);
  add("cluster", gemm + "fill_us", "100", Effect::slower);
  add("cluster", gemm + "tile_efficiency", "[0.3,0.3,0.3,0.3]", Effect::slower);
  add("tiny", gemm + "bandwidth_fraction", "0.01", Effect::slower);
  add("short", gemm + "split_k_us", "0", Effect::faster);
  add("cluster", gemm + "power_cap", "0.2", Effect::slower);
  add("cluster", gemm + "sustained", "0.5", Effect::slower);
  add("cluster", gemm + "input_grad_factor", "2", Effect::slower);
  add("cluster", gemm + "weight_grad_factor", "2", Effect::slower);
  add("fp8", gemm + "fp8_speedup", "3", Effect::faster);
  add("cluster", gemm + "alignment", "1024", Effect::slower);
  add("misaligned", gemm + "misaligned_factor", "3", Effect::slower);
  const std::string attention = "cluster.gpu.attention.flash2.";
  add("cluster", attention + "forward_tflops", "20", Effect::slower);
  add("cluster", attention + "backward_tflops", "20", Effect::slower);
  add("windowed", attention + "head_64", "0.1", Effect::slower);
  add("big heads", attention + "head_256", "0.1", Effect::slower);
  add("cluster", attention + "half_keys", "5000", Effect::slower);
  add("cluster", attention + "t0_us", "500", Effect::slower);
  add("cluster", attention + "blocks_per_sm", "100", Effect::slower);
  add("cluster", attention + "occupancy_exponent", "3", Effect::slower);
  add("windowed", attention + "window_tile", "1024", Effect::slower);
  const std::string memory = "cluster.gpu.memory_bound.";
  add("cluster", memory + "t0_us", "500", Effect::slower);
  for (const char* key :
       {"elementwise", "norm_forward", "norm_backward", "optimizer", "embedding", "reduction"})
    add("cluster", memory + key, "0.01", Effect::slower);
  for (const char* key : {"norm_forward_unfused", "norm_backward_unfused"})
    add("eager", memory + key, "0.01", Effect::slower);
  for (const char* key : {"unfused_residual", "unfused_activation"})
    add("eager", memory + key, "10", Effect::slower);
  add("unfused", memory + "softmax", "0.01", Effect::slower);
  add("windowed", memory + "rope", "0.01", Effect::slower);
  for (const char* key : {"loss_max_bytes", "loss_sum_bytes", "loss_backward_bytes"})
    add("cluster", memory + key, "1000", Effect::slower);
  return all;
}

}  // namespace

std::vector<Change> schema_changes() {
  std::vector<Change> all = model_changes();
  for (const auto& more :
       {job_changes(), software_changes(), transport_changes(), real_run_changes(),
        cluster_changes(), measured_changes(), constant_changes()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace trainyard
