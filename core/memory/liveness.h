#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/program/accesses.h"
#include "core/program/program.h"
#include "core/program/progress.h"

namespace trainyard {

// When the memory of each transient buffer is in use, by list order and by what is known to have
// ended. Views count as uses of their parent.
class Liveness {
 public:
  Liveness(const Program& program, const Progress& progress);

  const UseSpan& span(std::uint32_t buffer) const { return spans_[buffer]; }
  // Transient buffers that are used, by first use.
  std::span<const std::uint32_t> by_first_use() const { return order_; }
  // The latest use on each stream.
  Clock ended(std::uint32_t buffer) const;
  // What has surely ended before any use of the buffer starts.
  Clock born(std::uint32_t buffer) const;
  // One stream alone uses the buffer: that of its last use.
  bool on_one_stream(std::uint32_t buffer) const { return clocks_[buffer].ended == kNone; }
  // Every use of the buffer starts after all that its first use (by list order) knows to have
  // ended.
  bool born_at_first_use(std::uint32_t buffer) const { return clocks_[buffer].born == kNone; }

 private:
  struct Clocks {  // indexes in tables of clocks; kNone where the span tells all
    std::uint32_t ended = kNone, born = kNone;
  };
  void note_use(std::uint32_t root, const Instr& instr, std::uint32_t index);
  void note_first_use(std::uint32_t root, std::uint32_t index);

  const Program& program_;
  const Progress& progress_;
  std::vector<UseSpan> spans_;
  std::vector<Clocks> clocks_;
  std::vector<Clock> ended_, born_;
  std::vector<std::uint32_t> order_;
};

}  // namespace trainyard
