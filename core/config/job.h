#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/config/hardware.h"
#include "core/mesh/mesh.h"
#include "core/model/model.h"

namespace trainyard {

enum class Order : std::uint8_t { gpipe, one_f_one_b, interleaved_1f1b, zb_h1, zb_2p };
enum class Recompute : std::uint8_t { none, selective, full };
enum class Optimizer : std::uint8_t { adam, adamw, lamb };
enum class Precision : std::uint8_t { fp32, bf16, fp16 };
enum class LearningRateSchedule : std::uint8_t { constant, linear, cosine };

struct Parallel {
  std::int32_t tensor = 1, pipeline = 1, data = 1, context = 1, expert = 1;
  std::int32_t virtual_stages = 1;
  bool sequence = false;
  std::int32_t zero = 0;
  std::vector<Axis> order{Axis::tensor, Axis::data, Axis::pipeline};  // innermost first
  std::vector<std::int32_t> layers_per_stage;  // stage-major, virtual stages last; empty: equal
  std::vector<std::int32_t> placement;         // slot of each rank; empty: contiguous
};

// "tensor 2 x pipeline 1 x data 4", and context if there are such ranks.
std::string axes_text(const Parallel& parallel);

struct Batch {
  std::int64_t global_sequences = 1, micro_sequences = 1, sequence_length = 1;
};

struct Training {
  Optimizer optimizer = Optimizer::adam;
  Precision precision = Precision::bf16;
  Recompute recompute = Recompute::none;
  double clip = 1.0;  // global gradient norm; 0 = off
  std::int64_t vocab_divisible_by = 128;
  double total_tokens = 0;
  FlopConvention flops = FlopConvention::full;
};

// How the optimizer moves the weights: what a real run needs beside Training, whose keys shape the
// program.
struct Optimization {
  std::int64_t steps = 0;  // 0: as many as total_tokens take
  double learning_rate = 3e-4, min_learning_rate = 0;
  LearningRateSchedule schedule = LearningRateSchedule::cosine;
  std::int64_t warmup_steps = 0;
  double weight_decay = 0.1, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double initial_loss_scale = 65536;      // fp16
  std::int64_t loss_scale_window = 1000;  // steps without overflow after which it doubles
};

struct Data {
  std::vector<std::string> files;
  std::string format = "auto";
  double validation = 0;  // fraction of the samples, from the end
  bool separate_documents = false;
};

// What a real run does beside its steps.
struct Running {
  std::int64_t log_steps = 10;
  std::int64_t evaluation_steps = 0, evaluation_sequences = 0;  // 0: never; all
  std::int64_t checkpoint_steps = 0;
  std::int32_t keep_checkpoints = 3;
  bool keep_best = true;
  double timeout_s = 120;    // for a peer, before it counts as missing
  std::int32_t threads = 0;  // of one rank's kernels; 0: the processors shared out
  bool bind_to_cores = true;
  bool cuda_graphs = false;        // a step is captured once and replayed; the same results
  std::string attention = "auto";  // whose fused attention the CUDA backend takes
  bool repeatable = true;          // bit for bit, whatever it costs
};

// MegaScale's overlaps; each is a visible difference in the program.
struct Overlap {
  bool tensor = false;        // fused and chunked GEMMs beside chunked collectives
  bool pipeline = false;      // send and receive decoupled
  bool data = false;          // per-chunk reduce-scatter and all-gather beside compute
  bool prefetch = false;      // the step's first all-gather runs beside data loading
  bool data_loading = false;  // asynchronous, one loader a node
};

struct Schedule {
  Order pipeline = Order::one_f_one_b;
  Overlap overlap;
  std::int32_t tensor_chunks = 4;  // pieces a GEMM is cut into when overlap.tensor
};

struct Software {
  std::string attention = "flash2";  // generation of the fused attention kernel
  bool fused_norm = true, fused_residual = true, fused_activation = true;
  bool fused_gradient_sum = true;   // a product adds its weight gradient to the sum itself
  bool fp32_gradients = true;       // false: replicas add them up in the training's precision
  bool scattered_messages = false;  // between stages a rank sends its tensor part, gathered again
  bool fp8_linear = false;          // products of linear layers in FP8, all else as it was
  bool fused_casts = false;         // what precedes an FP8 product writes FP8 already
  bool cuda_graphs = false;
  double launch_blocking_us = 0;     // the GPU idles before each kernel; 0: launches run ahead
  double garbage_collection_ms = 0;  // mean host pause a step; 0 = off
};

struct Cluster {
  GpuProfile gpu;
  NodeProfile node;
  FabricProfile fabric;
  NcclProfile nccl;
  std::vector<MeasuredCall> measured_calls;
  std::int32_t nodes = 1;
};

struct Network {
  std::string model = "analytic";
  std::int32_t qps_per_connection = 1;
  std::string congestion_control = "ideal";  // of flow and packet
  std::string dcqcn_parameters = "nvidia";
  // What senders do about lost packets, see Transport.
  std::int32_t ib_timeout = 20, ib_retry_count = 7;  // NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT
  bool adaptive_retransmission = false;
  Bytes send_window{4 << 20};  // most that a connection sends without an answer: NCCL_BUFFSIZE
  Bytes mtu{4096};
};

// Times that stand in for the kernel and collective models; NaN or empty = not given.
// One value, one per stage, or one per stage and chunk (stage-major).
struct Measured {
  std::vector<double> forward_ms, backward_ms, weight_grad_ms;
  double pipeline_transfer_ms = -1, tensor_collective_ms = -1;
  double gradient_reduce_scatter_ms = -1, parameter_all_gather_ms = -1;
  double embedding_all_reduce_ms = -1, gradient_norm_ms = -1, optimizer_ms = -1;
  double data_loading_ms = -1;
  bool any() const;
};

// slow: a rank's or node's kernels take `factor` times as long from `at` for `lasts`.
// late: a rank issues its first instruction `at` after the others.
// jitter: every kernel's time is multiplied by 1 + |N(0, sigma)|, drawn per rank and instruction.
// link_slow: a link of the fabric takes `factor` times as long for what crosses it, for `lasts`.
// link_down: nothing crosses it; `converge` later the switches go around it.
// flap: both directions of a link's cable are down for `down`, then up for `up`, `cycles` times.
// switch_down, nic_down: so are all cables of a switch, or that of one card of a node.
// loss: a link loses a part `rate` of all packets.
struct Fault {
  enum class Kind : std::uint8_t {
    slow,
    late,
    jitter,
    link_slow,
    link_down,
    flap,
    switch_down,
    nic_down,
    loss
  } kind{};
  std::int32_t rank = -1, node = -1, nic = -1;
  Time at, lasts = kNever;
  double factor = 1, sigma = 0, rate = 0;
  std::string part;  // of the fabric, such as "tor_up:3:5" or "tor:3", see Fabric::part
  Time converge;
  Time down, up;
  std::int32_t cycles = 1;
  bool of_fabric() const { return kind >= Kind::link_slow; }
};

// Reads one line such as "slow rank=7 at=10s factor=1.1"; throws ConfigError naming the word.
Fault parse_fault(std::string_view line);

struct Job;
// What is wrong with the fault's rank or node in this job; empty: nothing.
std::string fault_problem(const Fault& fault, const Job& job);

struct Range {
  double low, high;
};

// Everything a run is told; the only thing that crosses from the front end to the engine.
struct Job {
  std::string name;
  Model model;
  Parallel parallel;
  Batch batch;
  Training training;
  Optimization optimization;
  Data data;
  Running running;
  Schedule schedule;
  Software software;
  Cluster cluster;
  Network network;
  Measured measured;
  std::vector<Fault> faults;
  std::map<std::string, Range> expect;
  std::uint64_t seed = 1;
  std::vector<std::string> warnings;  // legal but doubtful, for the user to read

  std::int32_t gpus() const;
  std::int64_t micro_batches() const;  // per pipeline and step
  std::int32_t stages() const { return parallel.pipeline; }
  std::int32_t chunks() const { return parallel.pipeline * parallel.virtual_stages; }
  Mesh mesh() const;
  Placement placement() const;
};

// Threads of a rank's kernels where the ranks of a node share its cores: what the job says, or the
// cores shared out; 1 elsewhere.
std::int32_t threads_of_rank(const Job& job);

}  // namespace trainyard
