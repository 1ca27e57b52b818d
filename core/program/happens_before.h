#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/program/program.h"

namespace trainyard {

// A vector clock: per stream, one more than the index of an instruction, 0 for none. Padded so
// that compilers keep it in whole SIMD registers.
struct alignas(16) Clock {
  std::array<std::int32_t, 12> at{};

  std::int32_t& operator[](Stream s) { return at[static_cast<std::size_t>(s)]; }
  std::int32_t operator[](Stream s) const { return at[static_cast<std::size_t>(s)]; }
  void merge(const Clock& o) {
    for (std::size_t t = 0; t < at.size(); ++t) at[t] = at[t] > o.at[t] ? at[t] : o.at[t];
  }
  void meet(const Clock& o) {  // the smaller of each
    for (std::size_t t = 0; t < at.size(); ++t) at[t] = at[t] < o.at[t] ? at[t] : o.at[t];
  }
  void raise(Stream s, std::int32_t to) {
    if ((*this)[s] < to) (*this)[s] = to;
  }
  bool covers(const Clock& o) const {
    std::int32_t below = 0;
    for (std::size_t t = 0; t < at.size(); ++t) below |= at[t] < o.at[t] ? 1 : 0;
    return below == 0;
  }
  bool operator==(const Clock&) const = default;
};

// The instructions that start and end together from `first` on: one, or a send/recv group.
inline std::span<const Instr> group_at(std::span<const Instr> code, std::size_t first) {
  std::size_t end = first + 1;
  while (end < code.size() && (code[end - 1].flags & kGroupedWithNext) != 0) ++end;
  return code.subspan(first, end - first);
}

// What has ended at some moment, in terms of the clock of an order; not to be kept while that
// grows.
class Known {
 public:
  Known(const Clock& others, Stream own, std::int32_t own_count)
      : others_(&others), own_(own), own_count_(own_count) {}
  std::int32_t operator[](Stream s) const { return s == own_ ? own_count_ : (*others_)[s]; }
  Clock clock() const {
    Clock clock = *others_;
    clock[own_] = own_count_;
    return clock;
  }

 private:
  const Clock* others_;
  Stream own_;
  std::int32_t own_count_;
};

// For each instruction of a program, which ones are known to have ended before it starts: by
// stream order, by waits, and because work on Stream::host blocks the issue of all that follows.
// Instructions that share their knowledge share its storage.
class HappensBefore {
 public:
  HappensBefore() = default;
  // Of a program with all its waits; waits that do not name an earlier instruction are ignored.
  explicit HappensBefore(const Program& program);

  void reserve(std::size_t instructions) { entries_.reserve(instructions); }
  // Appends the next instruction, which waits for nothing beyond stream and issue order.
  void append(Stream stream) {
    entries_.emplace_back(last(stream).snapshot, stream, false);
    last(stream).count = static_cast<std::int32_t>(entries_.size());
    if (stream == Stream::host) block_issue(next(stream).clock());
  }
  // Appends the next instruction or group, with what is known when it starts.
  void append(std::span<const Instr> group, const Clock& start);

  std::size_t size() const { return entries_.size(); }
  // What has ended when the next instruction on `stream` starts, without its waits.
  Known next(Stream stream) const {
    const Last& last = last_[static_cast<std::size_t>(stream)];
    return {snapshots_[last.snapshot], stream, last.count};
  }
  Known known(std::size_t instr) const {  // what has ended when `instr` starts
    const Entry entry = entries_[instr];
    const Clock& clock = snapshots_[entry.snapshot()];
    return {clock, entry.stream(),
            entry.grouped() ? clock[entry.stream()] : static_cast<std::int32_t>(instr)};
  }
  Known known_after(std::size_t instr) const {  // … when it has ended, itself included
    const Entry entry = entries_[instr];
    const Clock& clock = snapshots_[entry.snapshot() + (entry.grouped() ? 1 : 0)];
    return {clock, entry.stream(),
            entry.grouped() ? clock[entry.stream()] : static_cast<std::int32_t>(instr) + 1};
  }
  Clock start(std::size_t instr) const { return known(instr).clock(); }
  Clock end(std::size_t instr) const { return known_after(instr).clock(); }
  // Adds what has ended when `instr` has.
  void add_end(std::size_t instr, Clock& clock) const {
    const Entry entry = entries_[instr];
    clock.merge(snapshots_[entry.snapshot() + (entry.grouped() ? 1 : 0)]);
    if (!entry.grouped()) clock.raise(entry.stream(), static_cast<std::int32_t>(instr) + 1);
  }
  bool ordered(std::size_t earlier, std::size_t later) const {
    return known(later)[entries_[earlier].stream()] > static_cast<std::int32_t>(earlier);
  }
  // Equal for instructions of one stream that know the same of the other streams.
  std::uint32_t knowledge(std::size_t instr) const { return entries_[instr].snapshot(); }

 private:
  class Entry {  // where an instruction's clock is; its own stream's part follows from its index
   public:
    Entry() = default;
    Entry(std::uint32_t snapshot, Stream stream, bool grouped)
        : bits_(snapshot << 5 | static_cast<std::uint32_t>(stream) << 1 | (grouped ? 1 : 0)) {}
    std::uint32_t snapshot() const { return bits_ >> 5; }
    Stream stream() const { return static_cast<Stream>(bits_ >> 1 & 15); }
    bool grouped() const { return (bits_ & 1) != 0; }  // snapshot + 1 is the clock of its end

   private:
    std::uint32_t bits_ = 0;
  };
  struct Last {
    std::uint32_t snapshot = 0;
    std::int32_t count = 0;  // one more than the index of the stream's latest instruction
  };

  std::uint32_t remember(const Clock& clock);
  Last& last(Stream stream) { return last_[static_cast<std::size_t>(stream)]; }
  void block_issue(const Clock& end);

  std::vector<Clock> snapshots_{Clock{}};
  std::vector<Entry> entries_;
  std::array<Last, kStreams> last_{};
};

}  // namespace trainyard
