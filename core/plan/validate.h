#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/mesh/mesh.h"
#include "core/program/program.h"

namespace trainyard {

// Proves that the programs, run together under rendezvous (zero-buffer) sends, end: sends and
// receives pair up in size and order, collectives match on all members in kind, size, dtype and
// order, every transient buffer is written before it is read, every forward comes before its
// backward, every micro-batch passes every chunk exactly once; that waits order all conflicting
// accesses; and that buffers share memory only when their uses are ordered. Returns every
// violation found, each naming stage, instruction and buffer; empty means sound.
std::vector<std::string> validate(const ProgramSet& programs, const Mesh& mesh);

// A cell of the schedule: pass `pass` (index in Program::passes) of a stage.
struct ScheduleCell {
  std::int32_t stage = 0;
  std::uint32_t pass = 0;
};

// The schedule as a table: a row a stage, a column a slot in which each stage runs at most one
// pass, as soon as the passes it depends on are in earlier slots. Cells such as "F3.1": forward,
// micro-batch 3, chunk 1 (left out when there is one). With `marked`, that cell stands in brackets
// and only the columns near it are shown.
std::string schedule_table(const ProgramSet& programs, std::optional<ScheduleCell> marked = {});

}  // namespace trainyard
