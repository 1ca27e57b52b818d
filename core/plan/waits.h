#pragma once
#include "core/program/program.h"

namespace trainyard {

// Fills Instr::waits from the operands: read-after-write, write-after-read and write-after-write
// between streams, transitively reduced. An instruction that needs more than two waits gets joins
// in front of it on its stream. The last uses of a transient buffer on another stream are waited
// for two passes later, so that its memory can be reused without a stall.
void derive_waits(Program& program);

}  // namespace trainyard
