#pragma once
#include <string>
#include <vector>

#include "core/config/load.h"
#include "core/error.h"

namespace trainyard {

inline const std::string kConfigTests = TRAINYARD_TEST_DATA "/core/config";
inline const std::string kToyRoot = kConfigTests + "/data";

// data/good.toml: 32 GPUs, tensor 2, pipeline 4 of 3 chunks, data 4, 48 layers, m = 8.
inline Job toy_job(const std::vector<std::string>& sets = {}) {
  return load_job({kToyRoot + "/good.toml"}, sets, kToyRoot);
}

// What is wrong with the toy job when `sets` are laid over it; empty if nothing.
inline std::vector<std::string> toy_violations(const std::vector<std::string>& sets) {
  try {
    toy_job(sets);
  } catch (const ConfigError& error) {
    return error.violations();
  }
  return {};
}

}  // namespace trainyard
