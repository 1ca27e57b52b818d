#include "core/config/choices.h"

namespace trainyard {
namespace {

constexpr Choice<Block> kBlocks[] = {
    {Block::serial, "serial", "attention, then MLP on its output (GPT-2, GPT-3, Llama)"},
    {Block::parallel, "parallel",
     "attention and MLP of one input, summed (GPT-J, PaLM, MegaScale)"},
};
constexpr Choice<Norm> kNorms[] = {
    {Norm::layernorm, "layernorm", "mean and variance, with gain and bias"},
    {Norm::rmsnorm, "rmsnorm", "root mean square, with gain only (Llama)"},
};
constexpr Choice<Activation> kActivations[] = {
    {Activation::gelu, "gelu", "one projection of width ffn"},
    {Activation::swiglu, "swiglu", "gated: two projections of width ffn (Llama)"},
};
constexpr Choice<Position> kPositions[] = {
    {Position::learned, "learned", "a table of one row per position (GPT)"},
    {Position::rope, "rope", "rotation of queries and keys (Llama)"},
    {Position::none, "none", "no position kernel or table (also stands for ALiBi)"},
};
constexpr Choice<AttentionImpl> kAttentions[] = {
    {AttentionImpl::flash, "flash", "one fused kernel; software.attention names its generation"},
    {AttentionImpl::unfused, "unfused", "two batched GEMMs and a softmax over stored scores"},
};
constexpr Choice<FlopConvention> kFlopConventions[] = {
    {FlopConvention::full, "full", "every query attends to s keys (arXiv 2205.05198, appendix A)"},
    {FlopConvention::causal, "causal", "only unmasked keys (Megatron-Core from 0.12)"},
};
constexpr Choice<Order> kOrders[] = {
    {Order::gpipe, "gpipe", "all forwards, then all backwards"},
    {Order::one_f_one_b, "1f1b", "one forward, one backward after warm-up; fewest activations"},
    {Order::interleaved_1f1b, "interleaved-1f1b",
     "1F1B over virtual_stages chunks a stage: bubble divided by virtual_stages"},
    {Order::zb_h1, "zb-h1",
     "zero-bubble H1: weight gradients fill the bubble, memory of 1F1B (arXiv 2401.10241)"},
    {Order::zb_2p, "zb-2p",
     "zero-bubble H2: activations of up to 2 x pipeline - 1 micro-batches, no bubble between a "
     "stage's first and last pass"},
};
constexpr Choice<Recompute> kRecomputes[] = {
    {Recompute::none, "none", "keep every activation"},
    {Recompute::selective, "selective", "recompute the attention core only (arXiv 2205.05198)"},
    {Recompute::full, "full", "keep each layer's input, run its forward again"},
};
constexpr Choice<Optimizer> kOptimizers[] = {
    {Optimizer::adam, "adam", "two moments a parameter"},
    {Optimizer::adamw, "adamw", "Adam with decoupled weight decay"},
    {Optimizer::lamb, "lamb", "Adam scaled layer by layer by a trust ratio, for large batches"},
};
constexpr Choice<Precision> kPrecisions[] = {
    {Precision::fp32, "fp32", "everything in 32 bits"},
    {Precision::bf16, "bf16", "bfloat16 compute, fp32 main weights and gradients"},
    {Precision::fp16, "fp16", "half-precision compute, fp32 main weights and gradients"},
};
constexpr Choice<LearningRateSchedule> kLearningRateSchedules[] = {
    {LearningRateSchedule::constant, "constant", "stays, after the warm-up"},
    {LearningRateSchedule::linear, "linear", "falls in a line to min_learning_rate"},
    {LearningRateSchedule::cosine, "cosine", "falls in half a cosine to min_learning_rate"},
};
constexpr Choice<bool Overlap::*> kOverlaps[] = {
    {&Overlap::tensor, "tensor", "GEMMs cut into pieces beside the tensor-parallel collectives"},
    {&Overlap::pipeline, "pipeline", "sends and receives decoupled, beside compute"},
    {&Overlap::data, "data", "gradients reduced and parameters gathered a chunk at a time"},
    {&Overlap::prefetch, "prefetch", "the step's first all-gather runs beside data loading"},
    {&Overlap::data_loading, "data_loading", "the next batch is prepared during the step"},
};

}  // namespace

template <>
std::span<const Choice<Block>> choices() {
  return kBlocks;
}
template <>
std::span<const Choice<Norm>> choices() {
  return kNorms;
}
template <>
std::span<const Choice<Activation>> choices() {
  return kActivations;
}
template <>
std::span<const Choice<Position>> choices() {
  return kPositions;
}
template <>
std::span<const Choice<AttentionImpl>> choices() {
  return kAttentions;
}
template <>
std::span<const Choice<FlopConvention>> choices() {
  return kFlopConventions;
}
template <>
std::span<const Choice<Order>> choices() {
  return kOrders;
}
template <>
std::span<const Choice<Recompute>> choices() {
  return kRecomputes;
}
template <>
std::span<const Choice<Optimizer>> choices() {
  return kOptimizers;
}
template <>
std::span<const Choice<Precision>> choices() {
  return kPrecisions;
}
template <>
std::span<const Choice<LearningRateSchedule>> choices() {
  return kLearningRateSchedules;
}
template <>
std::span<const Choice<bool Overlap::*>> choices() {
  return kOverlaps;
}

}  // namespace trainyard
