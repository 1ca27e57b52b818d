#include "core/memory/liveness.h"

namespace trainyard {

Liveness::Liveness(const Program& program, const HappensBefore& order)
    : order_(order), roots_(program.buffers.size()), lives_(program.buffers.size()) {
  for (std::uint32_t b = 0; b < roots_.size(); ++b) {
    const std::uint32_t root = root_of(program, b);
    roots_[b] = root == b ? (is_persistent(program, b) ? kNone : b) : roots_[root];
  }
  std::vector<bool> view_used(program.buffers.size());
  for (std::uint32_t i = 0; i < program.code.size(); ++i) {
    const Stream stream = program.code[i].stream;
    for (const Operand operand : operands_of(program, program.code[i])) {
      const std::uint32_t root = roots_[operand.buffer];
      if (root == kNone) continue;
      Life& life = lives_[root];
      if (life.first == kNone) {
        life = {i, i, kNone, kNone, stream};
        used_.push_back(root);
      }
      if (life.ended != kNone || stream != life.first_stream) use(life, stream, i);
      life.last = i;
      if (root != operand.buffer && !view_used[operand.buffer]) {
        view_used[operand.buffer] = true;
        first_use_of_view(life, stream, i);
      }
    }
  }
}

void Liveness::use(Life& life, Stream stream, std::uint32_t index) {
  if (life.ended == kNone) {
    life.ended = static_cast<std::uint32_t>(ended_.size());
    ended_.emplace_back()[life.first_stream] = static_cast<std::int32_t>(life.last) + 1;
  }
  ended_[life.ended][stream] = static_cast<std::int32_t>(index) + 1;
}

// Parts may be written first by streams that do not wait for each other.
void Liveness::first_use_of_view(Life& life, Stream stream, std::uint32_t index) {
  if (stream == life.first_stream) return;
  const Clock start = order_.start(index), first = order_.start(life.first);
  if (start.covers(first)) return;
  if (life.born == kNone) {
    life.born = static_cast<std::uint32_t>(born_.size());
    born_.push_back(first);
  }
  born_[life.born].meet(start);
}

Clock Liveness::ended(std::uint32_t root) const {
  const Life& life = lives_[root];
  if (life.ended != kNone) return ended_[life.ended];
  Clock clock;
  clock[life.first_stream] = static_cast<std::int32_t>(life.last) + 1;
  return clock;
}

Clock Liveness::born(std::uint32_t root) const {
  const Life& life = lives_[root];
  return life.born == kNone ? order_.start(life.first) : born_[life.born];
}

}  // namespace trainyard
