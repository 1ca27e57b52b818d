#pragma once
#include <span>

#include "backends/common/operands.h"
#include "backends/cpu/call_header.h"
#include "backends/cpu/transport.h"
#include "core/program/program.h"

namespace trainyard {

// This rank's end of a send or receive along the pipeline. `call` has step and instr.
struct TransferEnd {
  const Instr* instr;
  Matrix buffer;
  CallHeader call;
};

// The link of a send or receive: one for each sender, receiver and direction of travel, since the
// two ends are on different streams.
Link transfer_link(const Transport& transport, const Instr& instr);

// Runs transfers that start together; returns when all have ended. Ends that do not fit are a
// PeerError that shows both.
void transfer(Transport& transport, std::span<const TransferEnd> ends);

}  // namespace trainyard
