#include "backends/common/model_json.h"

#include <fmt/core.h>

#include <stdexcept>

#include "core/config/choices.h"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(std::int64_t value) { return value; }
Json to_json(bool value) { return value; }
template <class E>
Json to_json(E value) {
  return std::string(choice_name(value));
}

void from_json(const Json& json, std::int64_t& value) { value = json.get<std::int64_t>(); }
void from_json(const Json& json, bool& value) { value = json.get<bool>(); }
template <class E>
void from_json(const Json& json, E& value) {
  const auto name = json.get<std::string>();
  for (const Choice<E>& choice : choices<E>()) {
    if (choice.name != name) continue;
    value = choice.value;
    return;
  }
  throw std::invalid_argument(fmt::format("unknown name \"{}\"", name));
}

// Calls visit(key, field) for every field that belongs to the weights.
template <class M, class Visit>
void each_field(M& m, Visit&& visit) {
  visit("layers", m.layers);
  visit("hidden", m.hidden);
  visit("heads", m.heads);
  visit("kv_heads", m.kv_heads);
  visit("head_dim", m.head_dim);
  visit("ffn", m.ffn);
  visit("vocab", m.vocab);
  visit("block", m.block);
  visit("norm", m.norm);
  visit("activation", m.activation);
  visit("position", m.position);
  visit("tied", m.tied);
  visit("bias", m.bias);
}

}  // namespace

Json model_json(const Model& model) {
  Json json;
  each_field(model, [&](const char* key, const auto& field) { json[key] = to_json(field); });
  return json;
}

Model model_from_json(const Json& json) {
  Model model;
  each_field(model, [&](const char* key, auto& field) { from_json(json.at(key), field); });
  return model;
}

std::vector<std::string> model_differences(const Model& actual, const Model& expected) {
  const Json a = model_json(actual), b = model_json(expected);
  std::vector<std::string> differences;
  for (const auto& [key, value] : a.items())
    if (value != b[key])
      differences.push_back(
          fmt::format("model.{} is {}, not {}", key, value.dump(), b[key].dump()));
  return differences;
}

}  // namespace trainyard
