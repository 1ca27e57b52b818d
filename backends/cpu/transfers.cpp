#include "backends/cpu/transfers.h"

#include <vector>

#include "backends/cpu/exchange.h"

namespace trainyard {
namespace {

CallHeader transfer_header(const TransferEnd& m) {
  CallHeader h = m.call;
  h.op = static_cast<std::uint8_t>(m.instr->op);
  h.group = static_cast<std::uint8_t>(Group::pipeline);
  h.dtype = static_cast<std::uint8_t>(m.buffer.dtype);
  h.bytes = m.instr->bytes.value;
  h.tag = m.instr->what;
  return h;
}

}  // namespace

Link transfer_link(const Transport& transport, const Instr& instr) {
  constexpr std::uint8_t kFirst = 0xf0;  // beyond all streams
  const std::vector<RankId>& members = transport.members(Group::pipeline);
  const auto size = static_cast<std::int32_t>(members.size());
  const std::int32_t place = ((transport.place(Group::pipeline) + instr.peer) % size + size) % size;
  const RankId peer = members[static_cast<std::size_t>(place)];
  const bool sends = instr.op == Op::send;
  const bool forward = (instr.peer > 0) == sends;
  const bool up = (transport.rank() < peer) == sends;  // from the lower rank to the higher
  return {peer, static_cast<std::uint8_t>(kFirst + (forward ? 2 : 0) + (up ? 1 : 0))};
}

void transfer(Transport& transport, std::span<const TransferEnd> ends) {
  Exchange exchange(transport, expect_same_transfer);
  for (const TransferEnd& m : ends) {
    const Link link = transfer_link(transport, *m.instr);
    if (m.instr->op == Op::send)
      exchange.send(link, transfer_header(m), bytes_of(m.buffer));
    else
      exchange.receive(link, transfer_header(m), bytes_of(m.buffer));
  }
  exchange.wait();
}

}  // namespace trainyard
