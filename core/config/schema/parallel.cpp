#include "core/config/nearest.h"
#include "core/config/schema_rows.h"

namespace trainyard {
namespace {

const std::vector<std::string> kNames(kAxisNames.begin(), kAxisNames.end());

// Reads "tensor-data-pipeline", innermost first, each axis at most once.
void assign_order(const Row&, const Value& value, const std::string&, Job& job) {
  const std::string& text = as_string(value);
  std::vector<Axis> order;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('-', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const auto found = std::find(kNames.begin(), kNames.end(), word);
    if (found == kNames.end())
      throw BadValue(value, fmt::format("names no axis with \"{}\"; valid: {}{}", printable(word),
                                        fmt::join(kNames, ", "), did_you_mean(word, kNames)));
    const Axis axis = static_cast<Axis>(found - kNames.begin());
    if (std::find(order.begin(), order.end(), axis) != order.end())
      throw BadValue(value, fmt::format("names the axis {} twice", word));
    order.push_back(axis);
    begin = end + 1;
  }
  for (Axis needed : {Axis::tensor, Axis::data, Axis::pipeline})
    if (std::find(order.begin(), order.end(), needed) == order.end())
      throw BadValue(value, fmt::format("leaves out the axis {}; write all of tensor, data and "
                                        "pipeline, innermost first",
                                        kNames[static_cast<std::size_t>(needed)]));
  job.parallel.order = std::move(order);
}

Row order_row() {
  Row out;
  out.key = "parallel.order";
  out.doc =
      "axes from the fastest to the slowest varying rank; context and expert stand beside tensor "
      "unless named";
  out.type = "axes joined by -";
  out.assign = assign_order;
  out.show = [](const Row&, const Job& job) {
    std::string text;
    for (Axis axis : job.parallel.order)
      text += (text.empty() ? "" : "-") + kNames[static_cast<std::size_t>(axis)];
    return fmt::format("\"{}\"", text);
  };
  return out;
}

}  // namespace

std::vector<Row> parallel_rows() {
  return {
      row("parallel.tensor", TRAINYARD_AT(parallel.tensor), "tensor-parallel ranks").within(1, 1e6),
      row("parallel.pipeline", TRAINYARD_AT(parallel.pipeline), "pipeline stages").within(1, 1e5),
      row("parallel.data", TRAINYARD_AT(parallel.data),
          "data-parallel replicas; default: what cluster.nodes leaves, else 1")
          .within(1, 1e6)
          .computed(),
      row("parallel.context", TRAINYARD_AT(parallel.context),
          "context-parallel ranks: each has a part of every sequence; attention gathers keys and "
          "values")
          .within(1, 1e6),
      row("parallel.expert", TRAINYARD_AT(parallel.expert), "expert-parallel ranks; only 1 yet")
          .within(1, 1e6),
      row("parallel.virtual_stages", TRAINYARD_AT(parallel.virtual_stages),
          "chunks a pipeline stage holds, with schedule.pipeline = \"interleaved-1f1b\"")
          .within(1, 1e4),
      row("parallel.sequence", TRAINYARD_AT(parallel.sequence),
          "sequence parallelism: norms and residuals split over the tensor ranks"),
      row("parallel.zero", TRAINYARD_AT(parallel.zero),
          "ZeRO stage: 1 splits optimizer state over data and context ranks, 2 gradients too, 3 "
          "parameters too")
          .within(0, 3),
      order_row(),
      row("parallel.layers_per_stage", TRAINYARD_AT(parallel.layers_per_stage),
          "layers of each chunk, stage by stage, chunks of a stage together; absent: equal")
          .within(0, 1e5),
      row("parallel.placement", TRAINYARD_AT(parallel.placement),
          "GPU slot of each rank, node x GPUs a node + GPU; absent: rank i in slot i")
          .within(0, 1e8),
      row("batch.global_sequences", TRAINYARD_AT(batch.global_sequences),
          "sequences of one optimizer step")
          .within(1, 1e9),
      row("batch.micro_sequences", TRAINYARD_AT(batch.micro_sequences),
          "sequences of one micro-batch")
          .within(1, 1e6),
      row("batch.sequence_length", TRAINYARD_AT(batch.sequence_length), "tokens of one sequence")
          .within(1, 1e8)
          .must(),
  };
}

}  // namespace trainyard
