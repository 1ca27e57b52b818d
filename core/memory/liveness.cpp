#include "core/memory/liveness.h"

namespace trainyard {

Liveness::Liveness(const Program& program, const Progress& progress)
    : program_(program),
      progress_(progress),
      spans_(use_spans(program)),
      clocks_(program.buffers.size()) {
  std::vector<std::uint8_t> touched(program.buffers.size()), seen(program.buffers.size());
  for (std::uint32_t i = 0; i < program.code.size(); ++i) {
    const Instr& instr = program.code[i];
    for (const Operand operand : operands_of(program, instr)) {
      const std::uint32_t root = root_of(program, operand.buffer);
      if (program.buffer_types[program.buffers[root].type].persistent) continue;
      note_use(root, instr, i);
      if (seen[root] == 0) order_.push_back(root);
      seen[root] = 1;
      if (touched[operand.buffer] != 0) continue;
      touched[operand.buffer] = 1;
      note_first_use(root, i);
    }
  }
}

void Liveness::note_use(std::uint32_t root, const Instr& instr, std::uint32_t index) {
  std::uint32_t& clock = clocks_[root].ended;
  const Instr& last = program_.code[spans_[root].last];
  if (clock == kNone) {
    if (instr.stream == last.stream) return;
    clock = static_cast<std::uint32_t>(ended_.size());
    ended_.emplace_back()[last.stream] = static_cast<std::int32_t>(spans_[root].last) + 1;
  }
  ended_[clock].raise(instr.stream, static_cast<std::int32_t>(index) + 1);
}

void Liveness::note_first_use(std::uint32_t root, std::uint32_t index) {
  const std::uint32_t first = spans_[root].first;
  if (index == first || progress_.start(index).covers(progress_.start(first))) return;
  std::uint32_t& clock = clocks_[root].born;
  if (clock == kNone) {
    clock = static_cast<std::uint32_t>(born_.size());
    born_.push_back(progress_.start(first));
  }
  born_[clock].meet(progress_.start(index));
}

Clock Liveness::ended(std::uint32_t buffer) const {
  if (!on_one_stream(buffer)) return ended_[clocks_[buffer].ended];
  const std::uint32_t last = spans_[buffer].last;
  Clock clock;
  clock[program_.code[last].stream] = static_cast<std::int32_t>(last) + 1;
  return clock;
}

Clock Liveness::born(std::uint32_t buffer) const {
  return born_at_first_use(buffer) ? progress_.start(spans_[buffer].first)
                                   : born_[clocks_[buffer].born];
}

}  // namespace trainyard
