#pragma once
#include <cstdint>
#include <string>

#include "core/program/program.h"

namespace trainyard {

// The forward and backward instructions of one micro-batch as a Graphviz digraph: a cluster a pass,
// a colour a stream, solid edges for waits and dotted ones for the order within a stream. Waits for
// instructions of other micro-batches are left out.
std::string to_graphviz(const Program& program, std::int32_t micro_batch);

}  // namespace trainyard
