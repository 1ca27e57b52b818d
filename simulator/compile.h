#pragma once
#include <vector>

#include "core/config/job.h"
#include "simulator/communication.h"
#include "simulator/durations.h"
#include "simulator/flow_rules.h"
#include "simulator/layout.h"
#include "simulator/step.h"

namespace trainyard {

// What compiling needs to know of the run.
struct CompileInputs {
  const Job& job;
  const CommunicationSpecs& specs;
  const CommunicationTimes& times;
  const RankTopology& topology;
  const FlowRules& flows;
  const CostScale& scale;
};

// Turns a stage's program into steps: durations looked up once, waits and issue as positions and
// slots, send/receive groups as one step each. Peers are not known yet.
CompiledProgram compile(const Program& program, const Durations& durations,
                        const CompileInputs& inputs);

// Gives every step that is waited for a slot, reusing one only for a step that cannot run before
// all waiters of its last owner have: then any order of walking that keeps streams and waits is
// safe.
void assign_slots(CompiledProgram& program);

// Pairs the sends and receives of all stages, the nth of a (sender, receiver, tag) with the nth,
// and checks that members of groups across stages agree on their collectives.
void match_peers(std::vector<CompiledProgram>& programs);

}  // namespace trainyard
