#pragma once
#include <cstdint>
#include <vector>

#include "core/program/program.h"
#include "core/program/progress.h"

namespace trainyard {

// Follows the operands of a program in list order and tells which earlier instructions an access
// conflicts with: a read with the latest write, a write with the latest write and the reads since.
// Views conflict with their parent, with the same part of it, and with views of other partitions.
class AccessTracker {
 public:
  explicit AccessTracker(const Program& program);

  // Adds the latest conflicting instruction of each stream to `conflicts`.
  void collect(const Instr& instr, Clock& conflicts) const;
  // Notes the accesses of `instr`, which stands at `index` of the list.
  void record(const Instr& instr, std::size_t index);

  // The latest accesses of a buffer (not a view), parts included, that later ones must wait for.
  Clock outstanding(std::uint32_t root) const;
  // Whether all of the buffer has been written: itself, its parent, or all views of one partition.
  bool written(std::uint32_t buffer) const;
  std::uint32_t root(std::uint32_t buffer) const { return nodes_[buffer].root; }

 private:
  struct Slot {     // what happened to a buffer, or to one part of it
    Clock readers;  // since the latest write
    std::int32_t writer = 0;
    Stream writer_stream{};
    std::uint16_t partition = 0, part = 0;
    std::uint32_t next_view = kNone;  // further slot of the same parent
  };
  struct Node {
    std::uint32_t root = 0, slot = 0;
    std::uint32_t first_view = kNone;  // of a parent: its views' slots
    bool partitions = false;           // of a parent: there are views of more than one partition
  };

  void add_view(std::uint32_t buffer, const BufferSpec& spec);
  bool partition_written(std::uint32_t first_view, std::uint16_t partition) const;
  static void conflict(const Slot& slot, bool writes, Clock& conflicts);

  const Program& program_;
  std::vector<Node> nodes_;
  std::vector<Slot> slots_;
};

}  // namespace trainyard
