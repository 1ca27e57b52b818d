#include <fmt/core.h>

#include "core/error.h"
#include "simulator/simulation.h"

// Uses the engine as a library: a mesh from core and a result type from the simulator.
int main() {
  using namespace trainyard;
  const ConfigError error("a sentence");
  const SimulationResult result;
  fmt::print("{} {}\n", error.what(), to_seconds(result.iteration));
  return error.violations().size() == 1 ? 0 : 1;
}
