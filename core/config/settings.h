#pragma once
#include <string>
#include <vector>

#include "core/config/value.h"

namespace trainyard {

// A scenario after merging: dotted key -> value, every key one of the schema's.
using Settings = std::map<std::string, Value>;

struct Problem {
  Where where;
  std::string text;  // without the place
  auto operator<=>(const Problem&) const = default;
};

// `lost`: sections that miss keys because the file meant to give them could not be read; "" = all.
struct Merged {
  Settings settings;
  std::vector<std::string> lost;
};

// Reads the files left to right, each on top of its own `base` files, lays `sets` ("a.b=c", the
// value as TOML or else a bare string) on top, and the presets named below all. Presets are looked
// for in scenario_root/models, clusters and gpus. What is unknown or cannot be read is added to
// `problems`.
Merged merge_settings(const std::vector<std::string>& files, const std::vector<std::string>& sets,
                      const std::string& scenario_root, std::vector<Problem>& problems);

// What is wrong with "a.b=c" alone, whatever else a job has: an unknown key or preset, another
// type, out of range.
std::vector<std::string> setting_problems(const std::string& set, const std::string& scenario_root);

}  // namespace trainyard
