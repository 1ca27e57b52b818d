#include "core/plan/validate.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/memory/liveness.h"
#include "core/plan/rendezvous.h"
#include "core/plan/validate_program.h"
#include "core/program/happens_before.h"

namespace trainyard {
namespace {

// The same chunks and micro-batches pass every stage.
void check_same_work(const ProgramSet& programs, Violations& violations) {
  const auto work = [](const Program& program) {
    std::vector<std::pair<std::int32_t, std::uint16_t>> forwards;
    for (const Pass& pass : program.passes)
      if (pass.kind == PassKind::forward) forwards.emplace_back(pass.micro_batch, pass.chunk);
    std::sort(forwards.begin(), forwards.end());
    return forwards;
  };
  const auto first = work(*programs.by_stage[0]);
  for (const auto& program : programs.by_stage)
    if (work(*program) != first)
      violations.push_back(
          fmt::format("stage {} runs other chunks or micro-batches than stage 0", program->stage));
}

}  // namespace

std::vector<std::string> validate(const ProgramSet& programs, const Mesh& mesh) {
  Violations violations;
  const auto stages = static_cast<std::size_t>(mesh.size(Axis::pipeline));
  if (programs.by_stage.size() != stages)
    return {fmt::format("{} programs for {} stages", programs.by_stage.size(), stages)};
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const Program& program = *programs.by_stage[stage];
    if (program.stage != static_cast<std::int32_t>(stage))
      violations.push_back(fmt::format("the program of stage {} says {}", stage, program.stage));
    check_structure(program, violations);
  }
  if (!violations.empty()) return violations;

  std::vector<HappensBefore> order;
  for (const auto& program : programs.by_stage) {
    order.emplace_back(*program);
    check_passes(*program, violations);
    check_accesses(*program, order.back(), violations);
    check_arena(*program, Liveness(*program, order.back()), violations);
  }
  check_same_work(programs, violations);
  check_rendezvous(programs, order, violations);
  return violations;
}

}  // namespace trainyard
