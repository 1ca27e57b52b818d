#pragma once
#include <array>

#include "core/program/program.h"

namespace trainyard {

// Gives every buffer in use its arena offset (256-byte aligned; -1 for transient ones that no
// instruction touches) and sets persistent_bytes and arena_bytes. Persistent buffers lie first;
// transient ones share memory only when every use of the earlier is known to have ended before the
// first write of the later, by streams and waits.
void plan_memory(Program& program);

// Bytes held at the moment of peak use, by class; their sum is at most arena_bytes, the rest is
// fragmentation.
struct MemoryUse {
  Bytes peak;  // = arena_bytes
  std::array<Bytes, kMemoryClasses> by_class{};
};
MemoryUse memory_use(const Program& program);

}  // namespace trainyard
