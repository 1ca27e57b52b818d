#include "backends/common/observers/train_json.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "backends/common/observers/run_json.h"
#include "backends/common/observers/run_rate.h"

namespace trainyard {
namespace {
using Json = nlohmann::ordered_json;

template <class Record>
Json list(const std::vector<Record>& records) {
  Json out = Json::array();
  for (const Record& record : records) out.push_back(to_json(record));
  return out;
}

}  // namespace

Json TrainJson::document() const {
  RunRate rate;
  for (const StepRecord& step : steps_) rate.add(step);
  Json out;
  out["schema"] = "trainyard-train-1";
  out["scenario"] = facts_.job;
  out["program_hash"] = fmt::format("{:016x}", facts_.program_hash);
  out["ranks"] = facts_.ranks;
  out["steps"] = list(steps_);
  out["evaluations"] = list(evaluations_);
  out["final"] = {{"step", end_.step}, {"loss", nullptr}, {"validation_loss", nullptr}};
  if (!steps_.empty()) out["final"]["loss"] = steps_.back().loss;
  if (!evaluations_.empty()) out["final"]["validation_loss"] = evaluations_.back().loss;
  out["tokens_per_s"] = rate.tokens_per_s();
  out["mfu"] = rate.mfu(facts_);
  out["model_flops_per_token"] = facts_.model_flops_per_token;
  out["memory_bytes"] = {{"peak", facts_.peak_memory.value}};
  out["checkpoints"] = list(checkpoints_);
  out["failure"] = end_.failure.empty() ? Json() : Json(end_.failure);
  out["warnings"] = end_.warnings;
  return out;
}

}  // namespace trainyard
