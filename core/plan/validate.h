#pragma once
#include <string>
#include <vector>

#include "core/mesh/mesh.h"
#include "core/program/program.h"

namespace trainyard {

// Proves that the programs, run together under rendezvous (zero-buffer) sends, end: sends and
// receives pair up in size and order, collectives match on all members in kind, size, dtype and
// order, every transient buffer is written before it is read, every forward comes before its
// backward, every layer is present exactly once. Returns every violation found, each naming stage,
// instruction and buffer; empty means sound.
std::vector<std::string> validate(const ProgramSet& programs, const Mesh& mesh);

// The schedule as a table: a row a stage, a column a pass slot, cells such as "F3.1" (forward,
// micro-batch 3, chunk 1). `marked` is a pass shown in brackets.
std::string schedule_table(const ProgramSet& programs);

}  // namespace trainyard
