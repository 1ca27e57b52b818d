#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/program/program.h"

namespace trainyard {

inline std::span<const Operand> operands_of(const Program& program, const Instr& instr) {
  return {program.operands.data() + instr.first_operand, instr.operands};
}

inline std::uint32_t root_of(const Program& program, std::uint32_t buffer) {
  const std::uint32_t parent = program.buffers[buffer].parent;
  return parent == kNone ? buffer : parent;
}

inline bool is_persistent(const Program& program, std::uint32_t buffer) {
  return program.buffer_types[program.buffers[buffer].type].persistent;
}

// First and last instruction of the list that touch a buffer or a part of it; kNone if none does.
struct UseSpan {
  std::uint32_t first = kNone, last = kNone;
  bool used() const { return first != kNone; }
};
// One per buffer; views have none of their own.
std::vector<UseSpan> use_spans(const Program& program);

// Follows the operands of a program in list order and tells which earlier instructions an access
// conflicts with: a read with the latest write, a write with the latest write and the reads since.
// Views conflict with their parent, with the same part of it, and with views of other partitions.
class AccessTracker {
 public:
  explicit AccessTracker(const Program& program);

  // Calls visit(Stream, int count) for earlier instructions that the access conflicts with, the
  // latest of each stream among them; count is one more than the index, 0 for none.
  template <class Visit>
  void conflicts(Operand operand, Visit&& visit) const {
    const Node& node = nodes_[operand.buffer];
    visit_slot(slots_[node.slot], operand.writes(), visit);
    if (node.root == operand.buffer) {
      if (node.first_view != kNone) visit_views(operand.buffer, operand.writes(), visit);
    } else {
      visit_slot(slots_[node.root], operand.writes(), visit);
      if (nodes_[node.root].partitions) visit_views(operand.buffer, operand.writes(), visit);
    }
  }
  // Notes an access by the instruction at `count` - 1 of the list.
  void record(Operand operand, Stream stream, std::int32_t count) {
    const Node& node = nodes_[operand.buffer];
    Slot& slot = slots_[node.slot];
    if (!operand.writes()) {
      if (slot.reader == 0 || slot.reader_stream == stream) {
        slot.reader = count;
        slot.reader_stream = stream;
      } else {
        add_reader(slot, stream, count);
      }
      return;
    }
    clear_readers(slot);
    slot.writer = count;
    slot.writer_stream = stream;
    if (node.root == operand.buffer && node.first_view != kNone) clear_views(node);
  }

  // Visits the latest accesses of a buffer that is no view, parts included, as conflicts() does.
  template <class Visit>
  void outstanding(std::uint32_t root, Visit&& visit) const {
    visit_slot(slots_[root], true, visit);
    if (nodes_[root].first_view != kNone) visit_views(root, true, visit);
  }
  // A transient buffer, or part of one, that no write is on record for.
  bool fresh(std::uint32_t buffer) const {
    return nodes_[buffer].transient && slots_[nodes_[buffer].slot].writer == 0;
  }
  // Whether all of the buffer has been written: itself, its parent, or all views of one partition.
  bool written(std::uint32_t buffer) const;
  std::uint32_t root(std::uint32_t buffer) const { return nodes_[buffer].root; }

 private:
  // What happened to a buffer, or to one part of it: the latest write and, of the reads since, the
  // latest on one stream; reads on further streams stand in more_readers_.
  struct Slot {
    std::int32_t writer = 0, reader = 0;
    Stream writer_stream{}, reader_stream{};
    std::uint32_t more = kNone;
  };
  struct View {
    std::uint32_t slot = 0;
    std::uint16_t partition = 0, part = 0;
    std::uint32_t next = kNone;  // of the same parent, a different part
  };
  struct Node {
    std::uint32_t root = 0, slot = 0;
    std::uint32_t first_view = kNone;  // of a parent
    std::uint16_t partition = 0;
    bool transient = false;
    bool partitions = false;  // of a parent: its views belong to more than one partition
  };

  template <class Visit>
  void visit_slot(const Slot& slot, bool writes, Visit&& visit) const {
    visit(slot.writer_stream, slot.writer);
    if (!writes) return;
    visit(slot.reader_stream, slot.reader);
    if (slot.more == kNone) return;
    for (int s = 0; s < kStreams; ++s) visit(static_cast<Stream>(s), more_readers_[slot.more][s]);
  }
  template <class Visit>
  void visit_views(std::uint32_t buffer, bool writes, Visit&& visit) const {
    const Node& node = nodes_[buffer];
    const bool is_root = node.root == buffer;
    for (std::uint32_t v = nodes_[node.root].first_view; v != kNone; v = views_[v].next)
      if (is_root || views_[v].partition != node.partition)
        visit_slot(slots_[views_[v].slot], writes, visit);
  }

  void add_view(std::uint32_t buffer, const BufferSpec& spec);
  void add_reader(Slot& slot, Stream stream, std::int32_t count);
  void clear_readers(Slot& slot) {
    slot.reader = 0;
    if (slot.more != kNone) more_readers_[slot.more] = {};
  }
  void clear_views(const Node& parent);
  bool partition_written(std::uint32_t first_view, std::uint16_t partition) const;

  std::vector<Node> nodes_;
  std::vector<Slot> slots_;
  std::vector<View> views_;
  std::vector<std::array<std::int32_t, kStreams>> more_readers_;
};

}  // namespace trainyard
