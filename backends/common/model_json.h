#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/model/model.h"

namespace trainyard {

// What decides a model's weights and what they mean, with the keys and names of scenario files.
nlohmann::ordered_json model_json(const Model& model);
// The reverse. Throws std::exception when a key is missing or has another type or name.
Model model_from_json(const nlohmann::ordered_json& json);

// In what the two differ, a sentence each ("model.heads is 4, not 2").
std::vector<std::string> model_differences(const Model& actual, const Model& expected);

}  // namespace trainyard
