#include "core/config/schema_rows.h"
#include "core/error.h"

namespace trainyard {
namespace {

std::vector<Row> measured_rows() {
  return {
      row("measured.forward_ms", TRAINYARD_AT(measured.forward_ms),
          "one micro-batch's forward: one value, one a stage, or one a stage and chunk")
          .within(0, 1e9),
      row("measured.backward_ms", TRAINYARD_AT(measured.backward_ms),
          "one micro-batch's backward, without weight gradients when those are given too")
          .within(0, 1e9),
      row("measured.weight_grad_ms", TRAINYARD_AT(measured.weight_grad_ms),
          "one micro-batch's weight gradients")
          .within(0, 1e9),
      row("measured.pipeline_transfer_ms", TRAINYARD_AT(measured.pipeline_transfer_ms),
          "one transfer between stages")
          .within(0, 1e9)
          .computed(),
      row("measured.tensor_collective_ms", TRAINYARD_AT(measured.tensor_collective_ms),
          "one tensor-parallel collective")
          .within(0, 1e9)
          .computed(),
      row("measured.gradient_reduce_scatter_ms", TRAINYARD_AT(measured.gradient_reduce_scatter_ms),
          "reduction of all gradients over the data ranks")
          .within(0, 1e9)
          .computed(),
      row("measured.parameter_all_gather_ms", TRAINYARD_AT(measured.parameter_all_gather_ms),
          "gathering of all parameters over the data ranks")
          .within(0, 1e9)
          .computed(),
      row("measured.embedding_all_reduce_ms", TRAINYARD_AT(measured.embedding_all_reduce_ms),
          "exchange of the tied embedding's gradient")
          .within(0, 1e9)
          .computed(),
      row("measured.gradient_norm_ms", TRAINYARD_AT(measured.gradient_norm_ms),
          "global gradient norm")
          .within(0, 1e9)
          .computed(),
      row("measured.optimizer_ms", TRAINYARD_AT(measured.optimizer_ms), "optimizer step")
          .within(0, 1e9)
          .computed(),
      row("measured.data_loading_ms", TRAINYARD_AT(measured.data_loading_ms),
          "preparation of one step's batch")
          .within(0, 1e9)
          .computed(),
  };
}

Row faults_row() {
  Row out;
  out.key = "faults.list";
  out.doc = "disturbances, such as \"slow node=17 at=30s factor=1.1\"";
  out.type = "list of strings";
  out.assign = [](const Row&, const Value& value, const std::string&, Job& job) {
    job.faults.clear();
    for (const Value& item : as_list(value)) try {
        job.faults.push_back(parse_fault(as_string(item)));
      } catch (const ConfigError& error) {
        throw BadValue(item, error.what());
      }
  };
  out.show = [](const Row&, const Job&) { return std::string("[]"); };
  return out;
}

// A bound on one number of the report. `name` is the number's dotted name in `sim --json`.
Row expect_row(std::string name, std::string doc) {
  Row out;
  out.key = "expect." + name;
  out.doc = std::move(doc);
  out.type = type_name<Range>();
  out.derived = true;
  out.assign = [name](const Row& self, const Value& value, const std::string&, Job& job) {
    read_member(self, value, job.expect[name]);
  };
  out.show = [](const Row&, const Job&) { return std::string(); };
  return std::move(out).at_least(0);
}

}  // namespace

std::vector<Row> run_rows() {
  std::vector<Row> rows{
      row_of_names("network.model", TRAINYARD_AT(network.model),
                   {{"ideal", "every flow at its card's rate, no contention"},
                    {"analytic", "latency, bandwidth and expected collisions in closed form"},
                    {"flow", "every flow on its ECMP path, sharing links with the others"},
                    {"packet", "every packet, queue and pause, of small clusters"},
                    {"simgrid",
                     "the second opinion on flow, for tests and a few hundred GPUs: "
                     "12,288 random flows within 0.1 s took SimGrid 402 s, a local "
                     "solver 0.06 s"}},
                   "how bytes move between nodes"),
      row_of_names(
          "network.congestion_control", TRAINYARD_AT(network.congestion_control),
          {{"ideal", "rates are fair at once"},
           {"none", "cards send at line rate and switches pause them (PFC)"},
           {"dcqcn", "cards react to marks, as dcqcn_parameters says"},
           {"swift", "cards react to round trip times"},
           {"hybrid", "cards react to both, as MegaScale's"}},
          "how cards find their rates; of models flow and packet (simgrid takes ideal alone)"),
      row_of_names(
          "network.dcqcn_parameters", TRAINYARD_AT(network.dcqcn_parameters),
          {{"nvidia", "defaults of ConnectX cards"}, {"paper", "as published, for 40 Gb/s"}},
          "constants of DCQCN in cards and switches"),
      row("network.qps_per_connection", TRAINYARD_AT(network.qps_per_connection),
          "queue pairs, hence paths, of one connection")
          .within(1, 128),
      row("network.ib_timeout", TRAINYARD_AT(network.ib_timeout),
          "NCCL_IB_TIMEOUT: a sender that hears nothing tries again after 4.096 us * 2^this; "
          "this and the next four are of models flow and packet")
          .within(1, 31),
      row("network.ib_retry_count", TRAINYARD_AT(network.ib_retry_count),
          "NCCL_IB_RETRY_CNT: so often, before NCCL fails")
          .within(0, 7),
      row("network.adaptive_retransmission", TRAINYARD_AT(network.adaptive_retransmission),
          "cards try again after 4 us, 8 us and so on up to ib_timeout's time; of model flow"),
      row("network.send_window", TRAINYARD_AT(network.send_window),
          "most a connection sends without an answer (NCCL_BUFFSIZE)")
          .within(1, 1e15),
      row("network.mtu", TRAINYARD_AT(network.mtu), "payload of a packet").within(64, 65536),
  };
  for (Row& each : measured_rows()) rows.push_back(std::move(each));
  rows.push_back(faults_row());
  rows.push_back(expect_row("iteration_time_s", "bounds of the time of one step"));
  rows.push_back(expect_row("tokens_per_s", "bounds of the throughput"));
  rows.push_back(expect_row("mfu", "bounds of the model FLOPs utilisation").within(0, 1));
  rows.push_back(expect_row("hfu", "bounds of the hardware FLOPs utilisation").within(0, 1));
  rows.push_back(expect_row("training_days", "bounds of the time of the whole training"));
  rows.push_back(expect_row("memory_bytes.peak", "bounds of the fullest GPU's peak memory"));
  for (const char* part : {"compute", "tensor_comm", "context_comm", "pipeline_comm", "data_comm",
                           "bubble", "optimizer", "data_stall", "straggler", "other"})
    rows.push_back(expect_row(fmt::format("breakdown_s.{}", part),
                              fmt::format("bounds of the step's share of {}", part)));
  return rows;
}

}  // namespace trainyard
