#include "core/program/accesses.h"

#include "core/error.h"

namespace trainyard {

std::vector<UseSpan> use_spans(const Program& program) {
  std::vector<UseSpan> spans(program.buffers.size());
  for (std::uint32_t i = 0; i < program.code.size(); ++i)
    for (const Operand operand : operands_of(program, program.code[i])) {
      UseSpan& span = spans[root_of(program, operand.buffer)];
      if (!span.used()) span.first = i;
      span.last = i;
    }
  return spans;
}

AccessTracker::AccessTracker(const Program& program)
    : nodes_(program.buffers.size()), slots_(program.buffers.size()) {
  for (std::uint32_t b = 0; b < program.buffers.size(); ++b) {
    const BufferSpec& spec = program.buffers[b];
    Node& node = nodes_[b];
    node.root = node.slot = b;
    if (spec.parent == kNone) {
      node.transient = !program.buffer_types[spec.type].persistent;
    } else {
      check(spec.parent < b && nodes_[spec.parent].root == spec.parent,
            "view {} comes after its parent {}, which is no view", b, spec.parent);
      add_view(b, spec);
    }
  }
}

void AccessTracker::add_view(std::uint32_t buffer, const BufferSpec& spec) {
  Node& parent = nodes_[spec.parent];
  Node& node = nodes_[buffer];
  node.root = spec.parent;
  node.transient = parent.transient;
  node.partition = spec.partition;
  for (std::uint32_t v = parent.first_view; v != kNone; v = views_[v].next) {
    if (views_[v].partition != spec.partition)
      parent.partitions = true;
    else if (views_[v].part == spec.part)
      node.slot = views_[v].slot;
  }
  if (node.slot != buffer) return;
  views_.push_back({buffer, spec.partition, spec.part, parent.first_view});
  parent.first_view = static_cast<std::uint32_t>(views_.size() - 1);
}

void AccessTracker::clear_views(const Node& parent) {
  // Accesses of parts are ordered before the write of the whole, which stands for them from now on.
  for (std::uint32_t v = parent.first_view; v != kNone; v = views_[v].next) {
    clear_readers(slots_[views_[v].slot]);
    slots_[views_[v].slot].writer = 0;
  }
}

void AccessTracker::add_reader(Slot& slot, Stream stream, std::int32_t count) {
  if (slot.more == kNone) {
    slot.more = static_cast<std::uint32_t>(more_readers_.size());
    more_readers_.emplace_back();
  }
  more_readers_[slot.more][static_cast<std::size_t>(stream)] = count;
}

bool AccessTracker::written(std::uint32_t buffer) const {
  const Node& node = nodes_[buffer];
  if (slots_[node.root].writer != 0 || slots_[node.slot].writer != 0) return true;
  const bool is_view = node.root != buffer;
  const std::uint32_t first = nodes_[node.root].first_view;
  for (std::uint32_t v = first; v != kNone; v = views_[v].next) {
    const bool own = is_view && views_[v].partition == node.partition;
    if (!own && partition_written(first, views_[v].partition)) return true;
  }
  return false;
}

bool AccessTracker::partition_written(std::uint32_t first, std::uint16_t partition) const {
  for (std::uint32_t v = first; v != kNone; v = views_[v].next)
    if (views_[v].partition == partition && slots_[views_[v].slot].writer == 0) return false;
  return true;
}

}  // namespace trainyard
