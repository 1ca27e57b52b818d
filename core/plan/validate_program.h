#pragma once
#include <string>
#include <vector>

#include "core/memory/liveness.h"
#include "core/program/happens_before.h"
#include "core/program/program.h"

namespace trainyard {

// The parts of validate() that look at one program alone. Each adds a sentence for every violation.
using Violations = std::vector<std::string>;

// "stage 1, instruction 7 (gemm_forward …, F3.0)"
std::string where(const Program& program, std::uint32_t instr);

// Indexes in range, views inside their parents, waits for earlier instructions of other streams,
// groups of transfers only. The other checks need this one to find nothing.
void check_structure(const Program& program, Violations& violations);

// Each (chunk, micro-batch) passes forward and backward once, in that order, and then, if any
// does, weight_grad; forward alone in an evaluation.
void check_passes(const Program& program, Violations& violations);

// Conflicting accesses are ordered by `order`, and transient buffers written before read.
void check_accesses(const Program& program, const HappensBefore& order, Violations& violations);

// Buffers lie inside the arena and share memory only when the uses of one end before those of the
// other start.
void check_arena(const Program& program, const Liveness& live, Violations& violations);

}  // namespace trainyard
