#pragma once
#include "core/config/settings.h"

namespace trainyard {

// Turns nested tables into dotted keys of the schema; what the schema does not know goes to
// `problems` with the nearest known key. A string in a section's place names its preset:
// model = "llama-7b" means model.preset.
void flatten(const Table& table, const std::string& prefix, Settings& out,
             std::vector<Problem>& problems);

// "unknown key; did you mean …?" for a dotted key, and, when `list` is set, the keys of its
// section.
std::string unknown_key(const std::string& key, bool list = true);

}  // namespace trainyard
