#include "core/engine/step_loop.h"

#include "core/error.h"

namespace trainyard {

StepReport run_step(Backend& backend, const ProgramSet& programs, const Mesh& mesh,
                    StepInputs inputs, Time deadline) {
  check(programs.by_stage.size() == static_cast<std::size_t>(mesh.size(Axis::pipeline)),
        "{} programs for {} stages", programs.by_stage.size(), mesh.size(Axis::pipeline));
  for (const RankId rank : backend.local_ranks()) {
    const auto stage = static_cast<std::size_t>(mesh.coord(rank)[Axis::pipeline]);
    backend.submit(rank, *programs.by_stage[stage], inputs);
  }
  return backend.wait(deadline);
}

}  // namespace trainyard
