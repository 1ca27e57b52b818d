#include "backends/cpu/call_header.h"

#include <fmt/format.h>

#include "core/program/program.h"

namespace trainyard {
namespace {

[[noreturn]] void mismatch(RankId own_rank, const CallHeader& own, RankId peer,
                           const CallHeader& theirs) {
  throw PeerError(fmt::format("the ranks' calls differ: rank {} is in {}; rank {} is in {}",
                              index(own_rank), describe(own), index(peer), describe(theirs)));
}

}  // namespace

std::string describe(const CallHeader& h) {
  const Op op = static_cast<Op>(h.op);
  const bool transfer = op == Op::send || op == Op::recv;
  const bool reduces = op == Op::all_reduce || op == Op::reduce_scatter;
  return fmt::format(
      "{} of {} bytes of {}{} over {}, {}instruction {} of step {}", op_name(op), h.bytes,
      dtype_name(static_cast<DType>(h.dtype)),
      !reduces                                                   ? ""
      : h.reduction == static_cast<std::uint8_t>(Reduction::sum) ? " (sum)"
                                                                 : " (max)",
      group_name(static_cast<Group>(h.group)),
      transfer ? fmt::format("tag {}, ", h.tag) : fmt::format("call {}, ", h.sequence), h.instr,
      h.step);
}

void expect_same_call(RankId rank, const CallHeader& a, RankId peer, const CallHeader& b) {
  const bool same = a.step == b.step && a.sequence == b.sequence && a.bytes == b.bytes &&
                    a.op == b.op && a.group == b.group && a.dtype == b.dtype &&
                    a.reduction == b.reduction;
  if (!same) mismatch(rank, a, peer, b);
}

void expect_same_transfer(RankId rank, const CallHeader& a, RankId peer, const CallHeader& b) {
  const bool same = a.step == b.step && a.bytes == b.bytes && a.tag == b.tag && a.dtype == b.dtype;
  if (!same) mismatch(rank, a, peer, b);
}

}  // namespace trainyard
