#pragma once
#include <span>

#include "backends/common/operands.h"
#include "backends/cpu/call_header.h"
#include "core/program/program.h"

namespace trainyard {

// This rank's end of a send or receive along the pipeline. `call` has step and instr.
struct TransferEnd {
  const Instr* instr;
  Matrix buffer;
  CallHeader call;
};

// Runs transfers that start together; returns when all have ended. A send waits for its receive,
// and the receive for a header that fits: else PeerError that shows both ends.
void transfer(Transport& transport, std::span<const TransferEnd> ends);

}  // namespace trainyard
