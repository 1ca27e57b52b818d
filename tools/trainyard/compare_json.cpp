#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/trainyard/compare.h"

namespace trainyard {
namespace {

Json pair_json(TimePair pair) {
  return {{"a", to_seconds(pair.a)},
          {"b", to_seconds(pair.b)},
          {"difference", to_seconds(pair.difference())}};
}

Json classes_json(const StepComparison& comparison) {
  Json out = Json::array();
  for (const ClassTimes& row : comparison.classes)
    out.push_back({{"stream", stream_name(row.stream)},
                   {"class", row.what},
                   {"instructions", row.instructions},
                   {"time_s", pair_json(row.time)},
                   {"share", std::isnan(row.share) ? Json() : Json(row.share)}});
  return out;
}

Json instructions_json(const StepComparison& comparison) {
  Json out = Json::array();
  for (const InstrDifference& row : comparison.most) {
    Json item{{"rank", row.rank},
              {"instruction", row.instr},
              {"class", row.work.text()},
              {"stream", stream_name(row.work.stream)}};
    if (!row.pass.kind.empty()) {
      item["pass"] = row.pass.kind;
      item["micro_batch"] = row.pass.micro_batch;
      item["chunk"] = row.pass.chunk;
    }
    item["time_s"] = pair_json(row.time);
    out.push_back(std::move(item));
  }
  return out;
}

Json ranks_json(const StepComparison& comparison) {
  Json out = Json::array();
  for (const RankTimes& row : comparison.ranks)
    out.push_back({{"rank", row.rank},
                   {"kernels_s", pair_json(row.kernels)},
                   {"idle_s", pair_json(row.idle)}});
  return out;
}

Json order_json(const StepComparison& comparison) {
  Json out = Json::array();
  for (const OrderChange& row : comparison.order_changes)
    out.push_back({{"rank", row.rank},
                   {"stream", stream_name(row.stream)},
                   {"position", row.position},
                   {"instruction_a", row.instr_a},
                   {"instruction_b", row.instr_b},
                   {"start_a_s", to_seconds(row.start_a)}});
  return out;
}

}  // namespace

Json compare_json(const StepComparison& comparison, const std::string& program_hash) {
  Json out;
  out["schema"] = "trainyard-compare-1";
  out["program_hash"] = program_hash;
  out["step_time_s"] = pair_json(comparison.step);
  out["ratio"] =
      comparison.step.a.value > 0 ? Json(ratio(comparison.step.b, comparison.step.a)) : Json();
  out["instructions"] = {{"compared", comparison.instructions},
                         {"only_a", comparison.only_a},
                         {"only_b", comparison.only_b}};
  out["classes"] = classes_json(comparison);
  out["most"] = instructions_json(comparison);
  out["ranks"] = ranks_json(comparison);
  out["order_changes"] = order_json(comparison);
  return out;
}

}  // namespace trainyard
