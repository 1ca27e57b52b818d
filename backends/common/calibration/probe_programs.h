#pragma once
#include "core/program/program.h"

namespace trainyard {

// Programs that talk as a training does: work on the communication streams waits for the compute
// stream and the compute stream for it.

// `repeats` times `op` over the data axis, of `bytes` in full, cut into `members` shards where the
// op has them.
Program collective_probe(Op op, Bytes bytes, std::int32_t members, std::int32_t repeats);

// The kernels of that program without its calls.
Program kernel_probe(std::int32_t repeats);

// `repeats` messages of `bytes` from each even stage of a pipeline to the next one and as many
// back, one after another.
Program message_probe(std::int32_t stage, Bytes bytes, std::int32_t repeats);

}  // namespace trainyard
