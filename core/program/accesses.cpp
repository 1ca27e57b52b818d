#include "core/program/accesses.h"

#include <algorithm>

#include "core/error.h"

namespace trainyard {

AccessTracker::AccessTracker(const Program& program)
    : program_(program), nodes_(program.buffers.size()), slots_(program.buffers.size()) {
  for (std::uint32_t b = 0; b < program.buffers.size(); ++b) {
    nodes_[b].root = nodes_[b].slot = b;
    if (program.buffers[b].parent != kNone) add_view(b, program.buffers[b]);
  }
}

void AccessTracker::add_view(std::uint32_t buffer, const BufferSpec& spec) {
  check(spec.parent < buffer && program_.buffers[spec.parent].parent == kNone,
        "view {} comes after its parent {}, which is no view", buffer, spec.parent);
  Node& parent = nodes_[spec.parent];
  Node& node = nodes_[buffer];
  node.root = spec.parent;
  for (std::uint32_t v = parent.first_view; v != kNone; v = slots_[v].next_view) {
    if (slots_[v].partition != spec.partition) parent.partitions = true;
    if (slots_[v].partition == spec.partition && slots_[v].part == spec.part) node.slot = v;
  }
  if (node.slot != buffer) return;
  slots_[buffer].partition = spec.partition;
  slots_[buffer].part = spec.part;
  slots_[buffer].next_view = parent.first_view;
  parent.first_view = buffer;
}

void AccessTracker::conflict(const Slot& slot, bool writes, Clock& conflicts) {
  if (writes) conflicts.merge(slot.readers);
  conflicts.raise(slot.writer_stream, slot.writer);
}

void AccessTracker::collect(const Instr& instr, Clock& conflicts) const {
  const Operand* operands = program_.operands.data() + instr.first_operand;
  for (std::uint32_t o = 0; o < instr.operands; ++o) {
    const bool writes = operands[o].writes();
    const Node& node = nodes_[operands[o].buffer];
    const Slot& slot = slots_[node.slot];
    conflict(slot, writes, conflicts);
    const bool is_root = node.root == operands[o].buffer;
    const Node& root = nodes_[node.root];
    if (!is_root) conflict(slots_[node.root], writes, conflicts);
    if (!is_root && !root.partitions) continue;
    for (std::uint32_t v = root.first_view; v != kNone; v = slots_[v].next_view)
      if (is_root || slots_[v].partition != slot.partition) conflict(slots_[v], writes, conflicts);
  }
}

void AccessTracker::record(const Instr& instr, std::size_t index) {
  const auto count = static_cast<std::int32_t>(index) + 1;
  const Operand* operands = program_.operands.data() + instr.first_operand;
  for (std::uint32_t o = 0; o < instr.operands; ++o) {
    const Node& node = nodes_[operands[o].buffer];
    Slot& slot = slots_[node.slot];
    if (!operands[o].writes()) {
      slot.readers[instr.stream] = count;
      continue;
    }
    slot.readers = {};
    slot.writer = count;
    slot.writer_stream = instr.stream;
    if (node.root != operands[o].buffer) continue;
    for (std::uint32_t v = node.first_view; v != kNone; v = slots_[v].next_view) {
      slots_[v].readers = {};  // ordered before this write, which stands for them from now on
      slots_[v].writer = 0;
    }
  }
}

Clock AccessTracker::outstanding(std::uint32_t root) const {
  Clock clock;
  conflict(slots_[root], true, clock);
  for (std::uint32_t v = nodes_[root].first_view; v != kNone; v = slots_[v].next_view)
    conflict(slots_[v], true, clock);
  return clock;
}

bool AccessTracker::written(std::uint32_t buffer) const {
  const Node& node = nodes_[buffer];
  if (slots_[node.root].writer != 0 || slots_[node.slot].writer != 0) return true;
  const std::uint32_t first = nodes_[node.root].first_view;
  for (std::uint32_t v = first; v != kNone; v = slots_[v].next_view) {
    const bool own = node.root != buffer && slots_[v].partition == slots_[node.slot].partition;
    if (!own && partition_written(first, slots_[v].partition)) return true;
  }
  return false;
}

bool AccessTracker::partition_written(std::uint32_t first, std::uint16_t partition) const {
  for (std::uint32_t v = first; v != kNone; v = slots_[v].next_view)
    if (slots_[v].partition == partition && slots_[v].writer == 0) return false;
  return true;
}

}  // namespace trainyard
