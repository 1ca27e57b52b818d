#include "tests/cuda_on_host/machine.h"

#include <array>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace trainyard::cuda_on_host {
namespace {

struct Setting {
  std::string_view name;
  void (*set)(Machine&, long long);
};

constexpr std::array kSettings{
    Setting{"devices", [](Machine& m, long long v) { m.devices = static_cast<int>(v); }},
    Setting{"memory", [](Machine& m, long long v) { m.memory = static_cast<std::size_t>(v); }},
    Setting{"driver", [](Machine& m, long long v) { m.driver = static_cast<int>(v); }},
    Setting{"nccl", [](Machine& m, long long v) { m.nccl = static_cast<int>(v); }},
    Setting{"slow_stream", [](Machine& m, long long v) { m.slow_stream = static_cast<int>(v); }},
    Setting{"slow_us", [](Machine& m, long long v) { m.slow_us = static_cast<int>(v); }},
    Setting{"failing_call", [](Machine& m, long long v) { m.failing_call = static_cast<int>(v); }},
    Setting{"hanging_call", [](Machine& m, long long v) { m.hanging_call = static_cast<int>(v); }},
    Setting{"faulty_device",
            [](Machine& m, long long v) { m.faulty_device = static_cast<int>(v); }},
};

void set(Machine& m, const std::string& pair) {
  const std::size_t equals = pair.find('=');
  for (const Setting& setting : kSettings)
    if (equals != std::string::npos && setting.name == std::string_view(pair).substr(0, equals))
      return setting.set(m, std::stoll(pair.substr(equals + 1)));
  throw std::runtime_error("CUDA_ON_HOST: \"" + pair + "\" is no setting");
}

Machine from_environment() {
  Machine m;
  const char* const text = std::getenv("CUDA_ON_HOST");
  std::istringstream pairs(text == nullptr ? "" : text);
  for (std::string pair; pairs >> pair;) set(m, pair);
  return m;
}

}  // namespace

Machine& machine() {
  static Machine of_this_process = from_environment();
  return of_this_process;
}

}  // namespace trainyard::cuda_on_host
