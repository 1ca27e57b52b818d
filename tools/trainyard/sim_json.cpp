#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tools/trainyard/sim_report.h"

namespace trainyard {
namespace {

Json breakdown_json(const SimulationResult& result) {
  Json out;
  for (int cause = 0; cause < kCauses; ++cause)
    out[std::string(cause_name(static_cast<Cause>(cause)))] = to_seconds(result.breakdown[cause]);
  return out;
}

Json memory_json(const PlannedJob& planned) {
  Json by_stage = Json::array();
  for (const MemoryUse& use : planned.memory) by_stage.push_back(use.peak.value);
  return {{"peak", peak_memory(planned).value}, {"by_stage", by_stage}};
}

}  // namespace

Json sim_json(const SimReport& report, const ProcessCost* cost) {
  const Job& job = report.planned.job;
  const SimulationResult& result = report.result;
  Json out;
  out["schema"] = "trainyard-sim-1";
  out["scenario"] = job.name;
  out["seed"] = job.seed;
  out["gpus"] = job.gpus();
  out["iteration_time_s"] = to_seconds(result.iteration);
  const Interval& likely = report.interval;
  if (likely.low_s < likely.high_s) {
    const double done = report.throughput.mfu * to_seconds(result.iteration);
    out["iteration_interval_s"] = {likely.low_s, likely.high_s};
    out["mfu_interval"] = {done / likely.high_s, done / likely.low_s};
  } else {
    out["iteration_interval_s"] = out["mfu_interval"] = nullptr;
  }
  out["tokens_per_s"] = report.throughput.tokens_per_s;
  out["mfu"] = report.throughput.mfu;
  out["hfu"] = report.throughput.hfu;
  out["model_flops_per_token"] = report.throughput.model_flops_per_token;
  out["training_days"] = report.throughput.training_days;
  out["breakdown_s"] = breakdown_json(result);
  out["memory_bytes"] = memory_json(report.planned);
  out["network"] = {{"model", job.network.model}, {"flows", result.flows},
                    {"max_link_load", nullptr},   {"slowest_flow_fraction", nullptr},
                    {"busiest_link", nullptr},    {"slowest_flow_link", nullptr},
                    {"stalls", nullptr},          {"longest_stall_s", nullptr}};
  if (result.network) {
    out["network"]["max_link_load"] = result.network->busiest_link;
    out["network"]["slowest_flow_fraction"] = result.network->slowest_flow;
    out["network"]["busiest_link"] = result.network->busiest_name;
    out["network"]["slowest_flow_link"] = result.network->slowest_name;
    out["network"]["stalls"] = result.network->stalls;
    out["network"]["longest_stall_s"] = to_seconds(result.network->longest_stall);
  }
  Json& simulation = out["simulation"];
  simulation = {{"instructions", result.instructions},
                {"events", result.events},
                {"wall_time_s", nullptr},
                {"peak_rss_bytes", nullptr}};
  if (cost != nullptr) {
    simulation["wall_time_s"] = cost->wall_time_s;
    simulation["peak_rss_bytes"] = cost->peak_rss_bytes;
  }
  out["program_hash"] = fmt::format("{:016x}", report.planned.programs.hash);
  out["warnings"] = report.warnings;
  return out;
}

std::vector<std::string> missed_expectations(const Job& job, const Json& result) {
  std::vector<std::string> missed, unknown;
  for (const auto& [key, range] : job.expect) {
    std::string pointer = "/" + key;
    for (char& c : pointer)
      if (c == '.') c = '/';
    const Json value = result.value(Json::json_pointer(pointer), Json());
    if (!value.is_number()) {
      unknown.push_back(fmt::format("expect.{}: the result has no number of this name", key));
      continue;
    }
    const double number = value.get<double>();
    if (number < range.low || number > range.high)
      missed.push_back(
          fmt::format("expect.{}: {} is outside [{}, {}]", key, number, range.low, range.high));
  }
  if (!unknown.empty()) throw ConfigError(unknown);
  return missed;
}

}  // namespace trainyard
