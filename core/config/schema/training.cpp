#include "core/config/nearest.h"
#include "core/config/schema_rows.h"

namespace trainyard {
namespace {

void assign_overlap(const Row& row, const Value& value, const std::string&, Job& job) {
  job.schedule.overlap = {};
  for (const Value& item : as_list(value)) {
    bool known = false;
    for (const auto& choice : choices<bool Overlap::*>())
      if (choice.name == as_string(item)) job.schedule.overlap.*choice.value = known = true;
    if (!known) refuse_choice(row, item);
  }
}

Row overlap_row() {
  Row out;
  out.key = "schedule.overlap";
  out.doc = "what runs beside compute; [] = nothing";
  out.type = "list of choices";
  for (const auto& choice : choices<bool Overlap::*>())
    out.choices.push_back({std::string(choice.name), std::string(choice.doc)});
  out.assign = assign_overlap;
  out.show = [](const Row&, const Job& job) {
    std::string text;
    for (const auto& choice : choices<bool Overlap::*>())
      if (job.schedule.overlap.*choice.value)
        text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", choice.name);
    return fmt::format("[{}]", text);
  };
  return out;
}

}  // namespace

std::vector<Row> training_rows() {
  return {
      row("training.optimizer", TRAINYARD_AT(training.optimizer), "optimizer"),
      row("training.precision", TRAINYARD_AT(training.precision), "number format of compute"),
      row("training.recompute", TRAINYARD_AT(training.recompute),
          "activations computed again in the backward pass"),
      row("training.clip", TRAINYARD_AT(training.clip),
          "limit of the global gradient norm; 0 = off")
          .within(0, 1e9),
      row("training.vocab_divisible_by", TRAINYARD_AT(training.vocab_divisible_by),
          "the embedding table is padded to a multiple of this times tensor")
          .within(1, 1e6),
      row("training.total_tokens", TRAINYARD_AT(training.total_tokens),
          "tokens of the whole training, for training_days; 0 = not told")
          .within(0, 1e18),
      row("training.flops", TRAINYARD_AT(training.flops),
          "which attention counts as model FLOPs in MFU and HFU"),
      row("schedule.pipeline", TRAINYARD_AT(schedule.pipeline), "order of passes in the pipeline"),
      overlap_row(),
      row("schedule.tensor_chunks", TRAINYARD_AT(schedule.tensor_chunks),
          "pieces a GEMM is cut into with overlap \"tensor\"")
          .within(1, 64),
      row("software.attention", TRAINYARD_AT(software.attention),
          "generation of the fused attention kernel: one of the GPU profile's"),
      row("software.fused_norm", TRAINYARD_AT(software.fused_norm), "norms in one kernel"),
      row("software.fused_residual", TRAINYARD_AT(software.fused_residual),
          "bias, dropout and residual addition in one kernel"),
      row("software.fused_activation", TRAINYARD_AT(software.fused_activation),
          "bias and activation in one kernel"),
      row("software.fused_gradient_sum", TRAINYARD_AT(software.fused_gradient_sum),
          "weight gradients are added to their sums inside the product"),
      row("software.fp32_gradients", TRAINYARD_AT(software.fp32_gradients),
          "replicas add up gradients in fp32; false: in training.precision, simulated only"),
      row("software.scattered_messages", TRAINYARD_AT(software.scattered_messages),
          "without parallel.sequence: between stages each tensor rank sends its part of the "
          "activations, which the receivers gather, simulated only"),
      row("software.fp8_linear", TRAINYARD_AT(software.fp8_linear),
          "linear layers multiply in FP8, simulated only; their inputs are cast first"),
      row("software.fused_casts", TRAINYARD_AT(software.fused_casts),
          "with fp8_linear: what comes before a product writes FP8 already"),
      row("software.launch_blocking_us", TRAINYARD_AT(software.launch_blocking_us),
          "idle time of the GPU before each kernel where the host waits for the one before; 0 = "
          "off")
          .within(0, 1e4),
      row("software.cuda_graphs", TRAINYARD_AT(software.cuda_graphs),
          "kernels are issued by replaying a captured graph"),
      row("software.garbage_collection_ms", TRAINYARD_AT(software.garbage_collection_ms),
          "mean pause of the host a step; 0 = off")
          .within(0, 1e6),
  };
}

}  // namespace trainyard
