#pragma once
#include <string>
#include <vector>

namespace trainyard {

// What setting one key must do to the simulated result of a base job; none: real runs alone read
// it.
enum class Effect { slower, faster, more_memory, less_memory, differs, refused, none };

struct Change {
  std::string base, set;
  Effect effect;
};

// At least one change for every key that should matter.
std::vector<Change> schema_changes();

}  // namespace trainyard
