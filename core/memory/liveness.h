#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/program/accesses.h"
#include "core/program/happens_before.h"
#include "core/program/program.h"

namespace trainyard {

// When the memory of each transient buffer is in use, by list order and by what is known to have
// ended. Views count as uses of their parent.
class Liveness {
 public:
  Liveness(const Program& program, const HappensBefore& order);

  // The transient buffer whose memory `buffer` uses; kNone if that is persistent.
  std::uint32_t root(std::uint32_t buffer) const { return roots_[buffer]; }
  // Transient buffers that are used, by first use.
  std::span<const std::uint32_t> by_first_use() const { return used_; }

  std::uint32_t first_use(std::uint32_t root) const { return lives_[root].first; }
  std::uint32_t last_use(std::uint32_t root) const { return lives_[root].last; }
  Stream first_stream(std::uint32_t root) const { return lives_[root].first_stream; }
  // The latest use on each stream.
  Clock ended(std::uint32_t root) const;
  // What has surely ended before any use of the buffer starts.
  Clock born(std::uint32_t root) const;
  // One stream alone uses the buffer.
  bool on_one_stream(std::uint32_t root) const { return lives_[root].ended == kNone; }
  // Every use starts after all that the first use (by list order) knows to have ended.
  bool born_at_first_use(std::uint32_t root) const { return lives_[root].born == kNone; }
  // Whether all uses have ended before one that starts with `known` ended.
  template <class KnownOrClock>
  bool over(std::uint32_t root, const KnownOrClock& known) const {
    const Life& life = lives_[root];
    if (life.ended == kNone) return known[life.first_stream] > static_cast<std::int32_t>(life.last);
    const Clock& ended = ended_[life.ended];
    for (int s = 0; s < kStreams; ++s)
      if (known[static_cast<Stream>(s)] < ended.at[s]) return false;
    return true;
  }

 private:
  struct Life {
    std::uint32_t first = kNone, last = kNone;
    std::uint32_t ended = kNone, born = kNone;  // in tables of clocks, unless uses on one stream
    Stream first_stream{};
  };
  void use(Life& life, Stream stream, std::uint32_t index);
  void first_use_of_view(Life& life, Stream stream, std::uint32_t index);

  const HappensBefore& order_;
  std::vector<std::uint32_t> roots_;
  std::vector<Life> lives_;
  std::vector<Clock> ended_, born_;
  std::vector<std::uint32_t> used_;
};

}  // namespace trainyard
