#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "core/config/value.h"
#include "core/error.h"
#include "simulator/timing.h"
#include "tools/trainyard/assumptions.h"
#include "tools/trainyard/validate.h"

namespace trainyard {
namespace {

struct OpName {
  const char* text;
  Op op;
};
constexpr std::array<OpName, 6> kOps{{{"all_reduce", Op::all_reduce},
                                      {"all_gather", Op::all_gather},
                                      {"reduce_scatter", Op::reduce_scatter},
                                      {"alltoall", Op::all_to_all},
                                      {"broadcast", Op::broadcast},
                                      {"sendrecv", Op::send}}};

std::optional<Op> op_of(const CsvRow& row) {
  for (const OpName& each : kOps)
    if (row.text("op") == each.text) return each.op;
  return {};
}

// Cards a node and their speed, as "8x200G …" tells it.
std::vector<std::string> nic_sets(const std::string& nic) {
  char* end = nullptr;
  const auto cards = std::strtol(nic.c_str(), &end, 10);
  if (cards <= 0 || *end != 'x') return {};
  const auto gbps = std::strtol(end + 1, &end, 10);
  if (gbps <= 0 || *end != 'G') return {};
  return {fmt::format("cluster.node.nics={}", cards),
          fmt::format("cluster.node.nic_gbps={}", gbps)};
}

const char* size_class(double bytes) {
  if (bytes <= 64 << 10) return "up to 64 KiB";
  if (bytes <= 4 << 20) return "up to 4 MiB";
  return bytes <= 128 << 20 ? "up to 128 MiB" : "above 128 MiB";
}

}  // namespace

CollectiveCall collective_call(const CsvRow& row) {
  CollectiveCall out;
  const auto nodes = row.integer("nodes"), gpus = row.integer("gpus"), bytes = row.integer("bytes");
  if (!nodes || !gpus || !bytes || *nodes < 1 || *gpus < *nodes || *gpus > 1'000'000) {
    out.skip = "a collective needs nodes, at least as many gpus, and bytes";
    return out;
  }
  out.bytes = {*bytes};
  out.shape.ranks = static_cast<std::int32_t>(*gpus);
  out.shape.nodes = static_cast<std::int32_t>(*nodes);
  const std::optional<Op> op = op_of(row);
  if (!op) out.skip = fmt::format("'{}' is no collective of training programs", row.text("op"));
  if (*gpus % *nodes != 0) out.skip = "GPUs do not divide evenly over the nodes";
  if (*gpus == 1) out.skip = "one GPU does not communicate";
  out.op = op.value_or(Op::all_reduce);
  return out;
}

double collective_us(const Cluster& profile, const Network& network, const CollectiveCall& call) {
  Cluster cluster = profile;
  cluster.nodes = call.shape.nodes;
  const CollectiveTimer timer(cluster, network);
  if (call.op == Op::send)
    return to_microseconds(
        timer.transfer(call.bytes, call.shape.nodes > 1 ? Tier::tor : Tier::node, 1));
  return to_microseconds(timer.time(call.op, call.shape, call.bytes));
}

std::vector<ValidatedRow> validate_collectives(const ValidationFiles& files) {
  const CsvTable table(files.table,
                       {"source", "gpu", "nodes", "gpus", "nic", "op", "algo", "bytes", "time_us"});
  const Assumptions assumptions(files.assumptions, "collectives", table);
  BenchJobs jobs;
  std::vector<ValidatedRow> out;
  for (const CsvRow& row : table.rows()) {
    const CollectiveCall call = collective_call(row);
    Assumed assumed = assumptions.of(row);
    if (call.shape.nodes > 1) {
      const std::vector<std::string> cards = nic_sets(row.text("nic"));
      assumed.sets.insert(assumed.sets.end(), cards.begin(), cards.end());
    }
    ValidatedRow& result = out.emplace_back();
    const std::string& gpu = row.text("gpu");
    result.id = fmt::format("{}: {} {} x {} {} {}", row.line(), row.text("op"), row.text("gpus"),
                            gpu, row.text("algo"), row.text("bytes"));
    const std::string size = size_class(static_cast<double>(call.bytes.value));
    const std::string where = call.shape.nodes > 1 ? "nodes" : "one node";
    const std::string generation = gpu_generation(gpu);
    result.families = {
        size, fmt::format("{} {} {}", generation, where, size),
        fmt::format("{} {} {}", generation, where, row.text("op")),
        fmt::format("| {} {} {}", row.text("source").substr(0, 44), gpu, call.shape.ranks)};
    if (!row.defect().empty()) result.families = {kTornFamily};
    result.quantity = "time_us";
    result.published = row.positive("time_us").value_or(kUnknown);
    result.assumed = fmt::format("{}", fmt::join(assumed.sets, ", "));
    result.skipped = call.skip.empty() ? assumed.skip : call.skip;
    if (!row.defect().empty()) result.skipped = row.defect();
    if (result.skipped.empty() && !assumed.gpu)
      result.skipped = fmt::format("no rule names a cluster of the GPU '{}'", printable(gpu));
    if (result.skipped.empty() && std::isnan(result.published)) result.skipped = "no time is told";
    if (!result.skipped.empty()) continue;
    try {
      const Job& job = jobs.of(assumed.sets);
      result.predicted = collective_us(job.cluster, job.network, call);
    } catch (const ConfigError& error) {
      result.skipped = why_refused(error);
    }
  }
  table.refuse_violations();
  return out;
}

}  // namespace trainyard
