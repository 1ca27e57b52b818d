#include <algorithm>

#include "core/error.h"
#include "core/program/happens_before.h"
#include "simulator/compile.h"

namespace trainyard {
namespace {

constexpr std::size_t kProbes = 16;  // slots tried before a new one is opened

class SlotAssignment {
 public:
  explicit SlotAssignment(CompiledProgram& program) : program_(program), order_(*program.source) {
    find_waiters();
  }

  void run() {
    std::array<std::uint32_t, kStreams> last;  // instruction of each stream
    last.fill(kNone);
    for (std::uint32_t i = 0; i + 1 < program_.steps.size(); ++i) {
      Step& step = program_.steps[i];
      const std::uint32_t instr = program_.instr_of[i];
      for (std::size_t k = 0; k < 3; ++k)
        if (step.wait_streams[k] != kAlways) step.slots[k] = program_.steps[step.waits[k]].out;
      if (waited_[i] != kNone) {
        // A helper goes ahead of its instruction; only what came before it is known.
        Clock known;
        if (instr != kNone)
          known = order_.start(instr);
        else if (last[step.stream] != kNone)
          known = order_.end(last[step.stream]);
        step.out = take(known, waiters_[waited_[i]]);
      }
      if (instr != kNone) last[step.stream] = instr;
    }
    program_.slots = kFirstSlot + static_cast<std::uint32_t>(owners_.size());
  }

 private:
  // For each step that is waited for: of each stream, the instruction that its last waiter is, or
  // comes before.
  void find_waiters() {
    waited_.assign(program_.steps.size(), kNone);
    std::array<std::int32_t, kStreams> next;  // instruction of each stream, plus one
    next.fill(INT32_MAX);
    for (std::size_t i = program_.steps.size() - 1; i-- > 0;) {
      const Step& step = program_.steps[i];
      if (program_.instr_of[i] != kNone)
        next[step.stream] = static_cast<std::int32_t>(program_.instr_of[i]) + 1;
      for (std::size_t k = 0; k < 3; ++k) {
        if (step.wait_streams[k] == kAlways) continue;
        std::uint32_t& at = waited_[step.waits[k]];
        if (at == kNone) {
          at = static_cast<std::uint32_t>(waiters_.size());
          waiters_.emplace_back();
        }
        waiters_[at].raise(static_cast<Stream>(step.stream), next[step.stream]);
      }
    }
  }

  std::uint16_t take(const Clock& known, const Clock& waiters) {
    const std::size_t tries = std::min(kProbes, owners_.size());
    for (std::size_t n = 0; n < tries; ++n) {
      probe_ = probe_ + 1 < owners_.size() ? probe_ + 1 : 0;
      if (!known.covers(owners_[probe_])) continue;
      owners_[probe_] = waiters;
      return static_cast<std::uint16_t>(kFirstSlot + probe_);
    }
    owners_.push_back(waiters);
    check(owners_.size() + kFirstSlot < UINT16_MAX, "stage {}: too many end times are kept",
          program_.stage);
    return static_cast<std::uint16_t>(kFirstSlot + owners_.size() - 1);
  }

  CompiledProgram& program_;
  HappensBefore order_;
  std::vector<std::uint32_t> waited_;  // of each step: index in waiters_, or kNone
  std::vector<Clock> waiters_;
  std::vector<Clock> owners_;  // of each slot, the waiters of the end it holds
  std::size_t probe_ = 0;
};

}  // namespace

void assign_slots(CompiledProgram& program) { SlotAssignment(program).run(); }

}  // namespace trainyard
