#include "backends/cpu/transfers.h"

#include <vector>

namespace trainyard {
namespace {

// Transfers have slots of their own: sender and receiver are on different streams.
std::uint64_t transfer_slot(std::uint32_t tag) {
  return (std::uint64_t{0xff} << 56) | std::uint64_t{tag} << 1;
}

std::int32_t neighbour(const Transport& transport, std::int32_t steps) {
  const auto members = static_cast<std::int32_t>(transport.members(Group::pipeline).size());
  return ((transport.place(Group::pipeline) + steps) % members + members) % members;
}

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

void transfer(Transport& transport, std::span<const TransferEnd> ends) {
  std::vector<CallHeader> mine, theirs(ends.size());
  for (const TransferEnd& m : ends) mine.push_back(transfer_header(m));
  std::vector<Transfer> headers, data;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const TransferEnd& m = ends[i];
    const std::int32_t peer = neighbour(transport, m.instr->peer);
    const std::uint64_t at = transfer_slot(m.instr->what);
    if (m.instr->op == Op::send) {
      data.push_back(transport.send(Group::pipeline, peer, at | 1, bytes_of_header(mine[i])));
      data.push_back(transport.send(Group::pipeline, peer, at, bytes_of(m.buffer)));
    } else {
      headers.push_back(
          transport.receive(Group::pipeline, peer, at | 1, bytes_of_header(theirs[i])));
    }
  }
  auto header = headers.begin();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const TransferEnd& m = ends[i];
    if (m.instr->op == Op::send) continue;
    const std::int32_t peer = neighbour(transport, m.instr->peer);
    (header++)->wait();
    expect_same_transfer(transport.rank(), mine[i],
                         transport.members(Group::pipeline)[static_cast<std::size_t>(peer)],
                         theirs[i]);
    data.push_back(
        transport.receive(Group::pipeline, peer, transfer_slot(m.instr->what), bytes_of(m.buffer)));
  }
  for (Transfer& t : data) t.wait();
}

}  // namespace trainyard
