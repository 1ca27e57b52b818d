#pragma once
#include <nlohmann/json_fwd.hpp>

#include "backends/common/run_observer.h"

namespace trainyard {

// Records as tools read them: times in seconds, null for what is not finite.
nlohmann::ordered_json to_json(const StepRecord& record);
nlohmann::ordered_json to_json(const EvaluationRecord& record);
nlohmann::ordered_json to_json(const CheckpointRecord& record);

}  // namespace trainyard
