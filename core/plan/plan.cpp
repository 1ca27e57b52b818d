#include "core/plan/plan.h"

#include "core/error.h"
#include "core/memory/memory_plan.h"
#include "core/plan/stage.h"
#include "core/plan/validate.h"
#include "core/plan/waits.h"

namespace trainyard {
namespace {

// Under ZeRO-3 each pass reduces gradients at once, so a tied table would be exchanged between
// first and last stage in an order that the two do not share.
void refuse_tied_zero3_pipeline(const Job& job) {
  if (job.parallel.zero == 3 && job.parallel.pipeline > 1 && job.model.tied &&
      job.parallel.data * job.parallel.context > 1)
    throw ConfigError(
        "parallel.zero = 3 with parallel.pipeline > 1 needs model.tied = false (or zero = 2): the "
        "tied table's gradient cannot be exchanged in every pass");
}

ProgramSet plan_for(const Job& job, Purpose purpose) {
  refuse_tied_zero3_pipeline(job);
  ProgramSet set;
  for (std::int32_t stage = 0; stage < job.stages(); ++stage) {
    auto program = std::make_shared<Program>(assemble_stage(job, stage, purpose));
    derive_waits(*program);
    plan_memory(*program);
    set.by_stage.push_back(std::move(program));
  }
  const std::vector<std::string> violations = validate(set, job.mesh());
  check(violations.empty(), "the planned programs are unsound: {}",
        violations.empty() ? "" : violations.front());
  set.hash = program_hash(set);
  return set;
}

}  // namespace

ProgramSet plan(const Job& job) { return plan_for(job, Purpose::training); }

ProgramSet plan_evaluation(const Job& job) {
  Job evaluation = job;
  evaluation.model.dropout = 0;
  return plan_for(evaluation, Purpose::evaluation);
}

}  // namespace trainyard
