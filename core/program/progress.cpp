#include "core/program/progress.h"

namespace trainyard {

Progress::Progress(const Program& program) {
  reserve(program.code.size());
  const std::span<const Instr> code(program.code);
  for (std::size_t i = 0; i < code.size();) {
    const auto group = group_at(code, i);
    bool waits = group.size() > 1;
    for (const Instr& member : group) waits |= member.waits[0] != kNone || member.waits[1] != kNone;
    if (waits) {
      Clock start;
      for (const Instr& member : group) {
        start.merge(next(member.stream));
        for (const std::uint32_t wait : member.waits)
          if (wait < i) start.merge(end(wait));
      }
      append(group, start);
    } else {
      append(group[0].stream);
    }
    i += group.size();
  }
}

std::uint32_t Progress::remember(const Clock& clock) {
  snapshots_.push_back(clock);
  return static_cast<std::uint32_t>(snapshots_.size() - 1);
}

void Progress::append(std::span<const Instr> group, const Clock& start) {
  const std::uint32_t snapshot = remember(start);
  if (group.size() == 1) {
    last(group[0].stream).snapshot = snapshot;
    append(group[0].stream);
    return;
  }
  Clock end = start;
  for (const Instr& member : group) {
    entries_.emplace_back(snapshot, member.stream, true);
    end.raise(member.stream, static_cast<std::int32_t>(entries_.size()));
  }
  const std::uint32_t after = remember(end);
  for (const Instr& member : group) last(member.stream) = {after, end[member.stream]};
}

void Progress::block_issue(const Clock& end) {
  for (Last& stream : last_) {
    Clock known = snapshots_[stream.snapshot];
    known.merge(end);
    stream.snapshot = remember(known);
  }
}

Clock Progress::start(std::size_t instr) const {
  const Entry entry = entries_[instr];
  Clock clock = snapshots_[entry.snapshot()];
  if (!entry.grouped()) clock.raise(entry.stream(), static_cast<std::int32_t>(instr));
  return clock;
}

Clock Progress::end(std::size_t instr) const {
  const Entry entry = entries_[instr];
  Clock clock = snapshots_[entry.snapshot() + (entry.grouped() ? 1 : 0)];
  if (!entry.grouped()) clock.raise(entry.stream(), static_cast<std::int32_t>(instr) + 1);
  return clock;
}

}  // namespace trainyard
