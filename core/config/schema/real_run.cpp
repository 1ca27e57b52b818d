#include "core/config/schema_rows.h"

namespace trainyard {
namespace {

std::vector<Row> optimization_rows() {
  return {
      row("training.steps", TRAINYARD_AT(optimization.steps),
          "steps of the whole training; 0 = as many as total_tokens take")
          .within(0, 1e12),
      row("training.learning_rate", TRAINYARD_AT(optimization.learning_rate),
          "highest learning rate")
          .within(0, 1e6),
      row("training.min_learning_rate", TRAINYARD_AT(optimization.min_learning_rate),
          "learning rate of the last step")
          .within(0, 1e6),
      row("training.learning_rate_schedule", TRAINYARD_AT(optimization.schedule),
          "how the learning rate falls after the warm-up"),
      row("training.warmup_steps", TRAINYARD_AT(optimization.warmup_steps),
          "steps over which the learning rate rises in a line from 0")
          .within(0, 1e12),
      row("training.weight_decay", TRAINYARD_AT(optimization.weight_decay),
          "decay of weight matrices and embeddings; biases and norms have none")
          .within(0, 1e3),
      row("training.beta1", TRAINYARD_AT(optimization.beta1), "decay of Adam's first moment")
          .within(0, 0.999999),
      row("training.beta2", TRAINYARD_AT(optimization.beta2), "decay of Adam's second moment")
          .within(0, 0.99999999),
      row("training.epsilon", TRAINYARD_AT(optimization.epsilon), "added to Adam's denominator")
          .within(0, 1),
      row("training.initial_loss_scale", TRAINYARD_AT(optimization.initial_loss_scale),
          "what losses are multiplied by at first in fp16; halves when a gradient overflows")
          .within(1, 0x1p60),
      row("training.loss_scale_window", TRAINYARD_AT(optimization.loss_scale_window),
          "steps without overflow after which the loss scale doubles")
          .within(1, 1e12),
  };
}

std::vector<Row> data_rows() {
  return {
      row("data.files", TRAINYARD_AT(data.files), "token files, one after the other"),
      row_of_names("data.format", TRAINYARD_AT(data.format),
                   {{"auto", "found out from each file's first bytes"},
                    {"bytes", "any file, a token a byte"},
                    {"llmc", "the .bin of llm.c"},
                    {"megatron", "the .bin and .idx of Megatron-LM's indexed data set"}},
                   "how the files hold tokens"),
      row("data.validation", TRAINYARD_AT(data.validation),
          "fraction of the samples, from the end, that is kept for evaluation")
          .within(0, 0.9),
      row("data.separate_documents", TRAINYARD_AT(data.separate_documents),
          "the first token of a document is no target"),
  };
}

}  // namespace

std::vector<Row> real_run_rows() {
  std::vector<Row> rows = optimization_rows();
  for (Row& each : data_rows()) rows.push_back(std::move(each));
  const auto add = [&](Row each) { rows.push_back(std::move(each)); };
  add(row("run.log_steps", TRAINYARD_AT(running.log_steps), "steps from log line to log line")
          .within(1, 1e12));
  add(row("run.evaluation_steps", TRAINYARD_AT(running.evaluation_steps),
          "steps from evaluation to evaluation; 0 = at the end only")
          .within(0, 1e12));
  add(row("run.evaluation_sequences", TRAINYARD_AT(running.evaluation_sequences),
          "sequences of the validation split that are evaluated; 0 = all")
          .within(0, 1e12));
  add(row("run.checkpoint_steps", TRAINYARD_AT(running.checkpoint_steps),
          "steps from checkpoint to checkpoint; 0 = at the end only")
          .within(0, 1e12));
  add(row("run.keep_checkpoints", TRAINYARD_AT(running.keep_checkpoints),
          "newest checkpoints that are kept")
          .within(1, 1e6));
  add(row("run.keep_best", TRAINYARD_AT(running.keep_best),
          "the checkpoint with the lowest validation loss is kept too"));
  add(row("run.timeout_s", TRAINYARD_AT(running.timeout_s),
          "how long a rank waits for another before it counts as missing")
          .within(0.1, 1e6));
  add(row("run.threads", TRAINYARD_AT(running.threads),
          "threads of one rank's kernels on the CPU backend; 0 = the node's processors shared out")
          .within(0, 1024));
  add(row("run.bind_to_cores", TRAINYARD_AT(running.bind_to_cores),
          "each rank of the CPU backend keeps to its share of the node's processors; false = all "
          "ranks run on all of them"));
  add(row("run.cuda_graphs", TRAINYARD_AT(running.cuda_graphs),
          "the CUDA backend captures a step as a graph and replays it; the same results, fewer "
          "launches"));
  add(row_of_names(
      "run.attention", TRAINYARD_AT(running.attention),
      {{"auto", "cuDNN's where it has a kernel for the shape, the backend's elsewhere"},
       {"cudnn", "cuDNN's; a shape that it has none for is an error"},
       {"own", "the backend's own, for any shape and type"}},
      "whose fused attention kernels the CUDA backend takes"));
  add(row("run.repeatable", TRAINYARD_AT(running.repeatable),
          "false = the CUDA backend may take kernels whose sums come in another order in each run: "
          "cuDNN's attention backward is faster then, and needs no memory for all scores"));
  return rows;
}

}  // namespace trainyard
