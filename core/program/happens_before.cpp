#include "core/program/happens_before.h"

namespace trainyard {

HappensBefore::HappensBefore(const Program& program) {
  reserve(program.code.size());
  const std::span<const Instr> code(program.code);
  for (std::size_t i = 0; i < code.size();) {
    const Instr& first = code[i];
    if (first.flags == 0 && first.waits[0] == kNone && first.waits[1] == kNone) {
      append(first.stream);
      ++i;
      continue;
    }
    const auto group = group_at(code, i);
    Clock start;
    for (const Instr& member : group) {
      start.merge(next(member.stream).clock());
      for (const std::uint32_t wait : member.waits)
        if (wait < i) add_end(wait, start);
    }
    append(group, start);
    i += group.size();
  }
}

std::uint32_t HappensBefore::remember(const Clock& clock) {
  snapshots_.push_back(clock);
  return static_cast<std::uint32_t>(snapshots_.size() - 1);
}

void HappensBefore::append(std::span<const Instr> group, const Clock& start) {
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

void HappensBefore::block_issue(const Clock& end) {
  for (Last& stream : last_) {
    Clock known = snapshots_[stream.snapshot];
    known.merge(end);
    stream.snapshot = remember(known);
  }
}

}  // namespace trainyard
