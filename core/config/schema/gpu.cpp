#include "core/config/schema_rows.h"

namespace trainyard {
namespace {

GpuProfile::Attention& attention_of(Job& job, const std::string& name) {
  auto& all = job.cluster.gpu.attention;
  for (auto& attention : all)
    if (attention.name == name) return attention;
  all.emplace_back().name = name;
  return all.back();
}

// A row under cluster.gpu.attention.NAME. `find` takes the generation's profile.
template <class Find>
Row attention_row(const std::string& key, Find find, std::string doc) {
  using Member = std::remove_cvref_t<decltype(find(std::declval<GpuProfile::Attention&>()))>;
  Row out;
  out.key = "cluster.gpu.attention.*." + key;
  out.doc = std::move(doc);
  out.type = type_name<Member>();
  out.assign = [find](const Row& self, const Value& value, const std::string& name, Job& job) {
    read_member(self, value, find(attention_of(job, name)));
  };
  out.show = [find](const Row& self, const Job&) {
    GpuProfile::Attention fresh;
    return show_member(self, find(fresh));
  };
  return std::move(out).at_least(0);
}

#define TRAINYARD_ATTENTION(member) \
  [](auto& a) -> auto& { return a.member; }

std::vector<Row> attention_rows() {
  return {
      attention_row("forward_tflops", TRAINYARD_ATTENTION(forward_tflops),
                    "E of the forward pass in T = t0 + flops / E (1 + c / keys) / occupancy^g, "
                    "head dimension 128"),
      attention_row("backward_tflops", TRAINYARD_ATTENTION(backward_tflops),
                    "E of the backward pass"),
      attention_row("head_64", TRAINYARD_ATTENTION(head_64),
                    "E at head dimension 64 relative to 128"),
      attention_row("head_256", TRAINYARD_ATTENTION(head_256),
                    "E at head dimension 256 relative to 128"),
      attention_row("half_keys", TRAINYARD_ATTENTION(half_keys),
                    "c: mean keys a query at which the rate is E / 2"),
      attention_row("t0_us", TRAINYARD_ATTENTION(t0_us), "fixed time of the kernel"),
      attention_row("blocks_per_sm", TRAINYARD_ATTENTION(blocks_per_sm),
                    "blocks of 128 queries an SM needs for full occupancy"),
      attention_row("occupancy_exponent", TRAINYARD_ATTENTION(occupancy_exponent),
                    "g: how strongly the rate follows the occupancy"),
      attention_row("window_tile", TRAINYARD_ATTENTION(window_tile),
                    "keys computed in excess of a sliding window"),
  };
}

#undef TRAINYARD_ATTENTION

std::vector<Row> gemm_rows() {
  return {
      row("cluster.gpu.gemm.t0_us", TRAINYARD_AT(cluster.gpu.gemm.t0_us), "fixed time of a GEMM")
          .at_least(0),
      row("cluster.gpu.gemm.fill_us", TRAINYARD_AT(cluster.gpu.gemm.fill_us),
          "prologue and epilogue of one wave of tiles")
          .at_least(0),
      row("cluster.gpu.gemm.tile_efficiency", TRAINYARD_AT(cluster.gpu.gemm.tile_efficiency),
          "fraction of peak of tiles of 32768, 16384, 8192 and 4096 outputs")
          .within(0.01, 2),
      row("cluster.gpu.gemm.bandwidth_fraction", TRAINYARD_AT(cluster.gpu.gemm.bandwidth_fraction),
          "fraction of the memory bandwidth a GEMM reaches")
          .within(0.01, 1),
      row("cluster.gpu.gemm.split_k_us", TRAINYARD_AT(cluster.gpu.gemm.split_k_us),
          "fixed time of a split along k")
          .at_least(0),
      row("cluster.gpu.gemm.power_cap", TRAINYARD_AT(cluster.gpu.gemm.power_cap),
          "fraction of peak that power allows in sustained work")
          .within(0.01, 1),
      row("cluster.gpu.gemm.sustained", TRAINYARD_AT(cluster.gpu.gemm.sustained),
          "clock of long runs relative to the bursts the other constants describe")
          .within(0.01, 2),
      row("cluster.gpu.gemm.input_grad_factor", TRAINYARD_AT(cluster.gpu.gemm.input_grad_factor),
          "time of an input-gradient GEMM relative to its forward")
          .within(0.1, 10),
      row("cluster.gpu.gemm.weight_grad_factor", TRAINYARD_AT(cluster.gpu.gemm.weight_grad_factor),
          "time of a weight-gradient GEMM over 4,096 tokens relative to its forward: what it "
          "takes to read and write the sums, which fewer tokens do not make less")
          .within(1, 10),
      row("cluster.gpu.gemm.fp8_speedup", TRAINYARD_AT(cluster.gpu.gemm.fp8_speedup),
          "rate of products in FP8 relative to bf16; 1: the GPU has no FP8")
          .within(1, 4),
      row("cluster.gpu.gemm.alignment", TRAINYARD_AT(cluster.gpu.gemm.alignment),
          "elements; dimensions that are no multiple pay misaligned_factor")
          .at_least(1),
      row("cluster.gpu.gemm.misaligned_factor", TRAINYARD_AT(cluster.gpu.gemm.misaligned_factor),
          "time factor of misaligned dimensions")
          .within(1, 10),
  };
}

// Fractions of the memory bandwidth that memory-bound kernels reach.
std::vector<Row> memory_rows() {
  std::vector<Row> rows{row("cluster.gpu.memory_bound.t0_us",
                            TRAINYARD_AT(cluster.gpu.memory_bound.t0_us),
                            "fixed time of a memory-bound kernel")
                            .at_least(0)};
  const auto fraction = [&rows](std::string name, auto find, const char* kernels) {
    rows.push_back(row("cluster.gpu.memory_bound." + name, find,
                       fmt::format("fraction of the memory bandwidth of {}", kernels))
                       .within(0.01, 2));
  };
  fraction("elementwise", TRAINYARD_AT(cluster.gpu.memory_bound.elementwise),
           "elementwise kernels");
  fraction("norm_forward", TRAINYARD_AT(cluster.gpu.memory_bound.norm_forward),
           "fused norms, forward");
  fraction("norm_backward", TRAINYARD_AT(cluster.gpu.memory_bound.norm_backward),
           "fused norms, backward");
  fraction("norm_forward_unfused", TRAINYARD_AT(cluster.gpu.memory_bound.norm_forward_unfused),
           "norms, forward, without software.fused_norm");
  fraction("norm_backward_unfused", TRAINYARD_AT(cluster.gpu.memory_bound.norm_backward_unfused),
           "norms, backward, without software.fused_norm");
  fraction("softmax", TRAINYARD_AT(cluster.gpu.memory_bound.softmax), "softmax of stored scores");
  fraction("rope", TRAINYARD_AT(cluster.gpu.memory_bound.rope), "rotary positions");
  fraction("optimizer", TRAINYARD_AT(cluster.gpu.memory_bound.optimizer), "the optimizer");
  fraction("embedding", TRAINYARD_AT(cluster.gpu.memory_bound.embedding), "embedding look-ups");
  fraction("reduction", TRAINYARD_AT(cluster.gpu.memory_bound.reduction),
           "reductions to one value");
  const auto traffic = [&rows](std::string name, auto find, const char* kernels) {
    rows.push_back(row("cluster.gpu.memory_bound." + name, find,
                       fmt::format("bytes moved by {} relative to the fused kernel", kernels))
                       .within(1, 20));
  };
  traffic("unfused_residual", TRAINYARD_AT(cluster.gpu.memory_bound.unfused_residual),
          "separate bias, dropout and addition");
  traffic("unfused_activation", TRAINYARD_AT(cluster.gpu.memory_bound.unfused_activation),
          "separate bias and activation");
  const auto loss = [&rows](std::string name, auto find, const char* part) {
    rows.push_back(row("cluster.gpu.memory_bound." + name, find,
                       fmt::format("time of a logit in {} of the cross-entropy, as bytes at full "
                                   "bandwidth",
                                   part))
                       .within(0, 1000));
  };
  loss("loss_max_bytes", TRAINYARD_AT(cluster.gpu.memory_bound.loss_max_bytes), "the maximum");
  loss("loss_sum_bytes", TRAINYARD_AT(cluster.gpu.memory_bound.loss_sum_bytes),
       "the sum of exponentials");
  loss("loss_backward_bytes", TRAINYARD_AT(cluster.gpu.memory_bound.loss_backward_bytes),
       "the backward pass");
  return rows;
}

}  // namespace

std::vector<Row> gpu_rows() {
  std::vector<Row> rows{
      row_of_preset("cluster.gpu.preset", "file of scenarios/gpus, without .toml, merged below"),
      row("cluster.gpu.name", TRAINYARD_AT(cluster.gpu.name), "product name"),
      row("cluster.gpu.sms", TRAINYARD_AT(cluster.gpu.sms), "streaming multiprocessors")
          .within(1, 1e5)
          .must(),
      row("cluster.gpu.peak_bf16_tflops", TRAINYARD_AT(cluster.gpu.peak_bf16),
          "dense peak; 0 = format not supported")
          .within(0, 1e6),
      row("cluster.gpu.peak_fp16_tflops", TRAINYARD_AT(cluster.gpu.peak_fp16),
          "dense peak; 0 = format not supported")
          .within(0, 1e6),
      row("cluster.gpu.peak_tf32_tflops", TRAINYARD_AT(cluster.gpu.peak_tf32),
          "dense peak of fp32 GEMMs on tensor cores; 0 = none")
          .within(0, 1e6),
      row("cluster.gpu.peak_fp32_tflops", TRAINYARD_AT(cluster.gpu.peak_fp32),
          "peak of fp32; with cluster.node.cores all peaks are those of one core")
          .within(0, 1e6),
      row("cluster.gpu.memory", TRAINYARD_AT(cluster.gpu.memory), "usable device memory")
          .within(1, 1e15)
          .must(),
      row("cluster.gpu.memory_bandwidth_gbs", TRAINYARD_AT(cluster.gpu.memory_bandwidth),
          "peak bandwidth of the device memory")
          .within(1, 1e6)
          .must(),
      row("cluster.gpu.batched_gemm_tflops", TRAINYARD_AT(cluster.gpu.batched_gemm_tflops),
          "most that unfused attention's per-head products reach")
          .within(0, 1e6),
      row("cluster.gpu.host_launch_us", TRAINYARD_AT(cluster.gpu.host_launch_us),
          "host time to issue one kernel")
          .at_least(0),
      row("cluster.gpu.graph_launch_us", TRAINYARD_AT(cluster.gpu.graph_launch_us),
          "the same inside a CUDA graph")
          .at_least(0),
      row("cluster.gpu.collective_sm_slowdown", TRAINYARD_AT(cluster.gpu.collective_sm_slowdown),
          "time factor of a GEMM beside a collective")
          .within(1, 10),
  };
  for (auto part : {gemm_rows, attention_rows, memory_rows})
    for (Row& each : part()) rows.push_back(std::move(each));
  return rows;
}

}  // namespace trainyard
