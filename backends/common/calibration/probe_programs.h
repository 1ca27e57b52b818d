#pragma once
#include "core/config/job.h"
#include "core/program/program.h"

namespace trainyard {

// Programs that talk as a training does: work on the communication streams waits for the compute
// stream and the compute stream for it.

// The kernel between two calls: long enough for the other stream's thread to fall asleep and for
// the call's operands to leave the nearest cache, as those of a layer are; or next to nothing.
enum class Tick : std::uint8_t { long_one, short_one };

// `repeats` times `op` over the data axis, of `bytes` in full, cut into `members` shards where the
// op has them.
Program collective_probe(Op op, Bytes bytes, std::int32_t members, std::int32_t repeats, Tick tick);

// The kernels of that program without its calls.
Program kernel_probe(std::int32_t repeats, Tick tick);

// `repeats` copies of `bytes` of tokens from where the host has loaded them.
Program copy_probe(Bytes bytes, std::int32_t repeats);

// The least job of one rank, for a backend that runs probes.
Job probe_job();

// `repeats` messages of `bytes` from each even stage of a pipeline to the next one and as many
// back, one after another.
Program message_probe(std::int32_t stage, Bytes bytes, std::int32_t repeats);

}  // namespace trainyard
