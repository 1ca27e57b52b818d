#include "backends/common/observers/run_json.h"

#include <nlohmann/json.hpp>

namespace trainyard {
using Json = nlohmann::ordered_json;

Json to_json(const StepRecord& record) {
  return {{"step", record.step},
          {"loss", record.loss},
          {"grad_norm", record.grad_norm},
          {"lr", record.learning_rate},
          {"loss_scale", record.loss_scale},
          {"skipped", record.skipped},
          {"time_s", to_seconds(record.time)},
          {"data_wait_s", to_seconds(record.data_wait)},
          {"tokens", record.tokens}};
}

Json to_json(const EvaluationRecord& record) {
  return {{"step", record.step},
          {"validation_loss", record.loss},
          {"sequences", record.sequences},
          {"time_s", to_seconds(record.time)}};
}

Json to_json(const CheckpointRecord& record) {
  return {{"step", record.step},
          {"path", record.path},
          {"bytes", record.bytes.value},
          {"blocked_s", to_seconds(record.blocked)},
          {"written_in_s", to_seconds(record.written_in)}};
}

}  // namespace trainyard
