#include "backends/cpu/collectives.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/exchange.h"
#include "backends/cpu/reduce.h"
#include "core/error.h"

namespace trainyard {
namespace {

// Below this, every member sums all parts itself: one exchange instead of two.
constexpr std::size_t kSmallBytes = 16 << 10;

// Equal shares of `bytes`, in whole elements; the first ones are an element longer if need be.
std::vector<std::size_t> shares(std::size_t bytes, std::size_t members, std::size_t element) {
  const std::size_t elements = bytes / element;
  std::vector<std::size_t> starts{0};
  for (std::size_t m = 0; m < members; ++m)
    starts.push_back(starts.back() +
                     (elements / members + (m < elements % members ? 1 : 0)) * element);
  return starts;
}

}  // namespace

CallHeader Collectives::numbered(CallHeader call, Group group) {
  call.group = static_cast<std::uint8_t>(group);
  call.sequence = sequences_[static_cast<std::size_t>(group)]++;
  return call;
}

void Collectives::exchange(Group group, const CallHeader& call, std::span<const Part> parts,
                           std::span<const Space> spaces) {
  const auto& members = transport_.members(group);
  const auto own = static_cast<std::size_t>(transport_.place(group));
  Exchange exchange(transport_, expect_same_call);
  for (std::size_t m = 0; m < members.size(); ++m) {
    if (m == own) continue;
    exchange.send({members[m], channel_}, call, parts[m]);
    exchange.receive({members[m], channel_}, call, spaces[m]);
  }
  exchange.wait();
}

std::vector<Collectives::Space> Collectives::staging(std::size_t members, std::size_t bytes) {
  if (staging_.size() < members * bytes) staging_.resize(members * bytes);
  std::vector<Space> spaces;
  for (std::size_t m = 0; m < members; ++m) spaces.emplace_back(&staging_[m * bytes], bytes);
  return spaces;
}

void Collectives::all_gather(Group group, const Matrix& shard, const Matrix& full,
                             const CallHeader& call) {
  const std::size_t members = transport_.members(group).size();
  const auto own = static_cast<std::size_t>(transport_.place(group));
  const Space from = bytes_of(shard), to = bytes_of(full);
  check(to.size() == from.size() * members, "all_gather of {} bytes from {} members of {}",
        to.size(), members, from.size());
  std::vector<Part> parts(members, from);
  std::vector<Space> spaces;
  for (std::size_t m = 0; m < members; ++m)
    spaces.push_back(to.subspan(m * from.size(), from.size()));
  if (spaces[own].data() != from.data()) std::memcpy(spaces[own].data(), from.data(), from.size());
  exchange(group, call, parts, spaces);
}

void Collectives::reduce_scatter(Group group, const Matrix& full, const Matrix& shard,
                                 Reduction reduction, const CallHeader& call) {
  const std::size_t members = transport_.members(group).size();
  const auto own = static_cast<std::size_t>(transport_.place(group));
  const Space from = bytes_of(full), to = bytes_of(shard);
  check(from.size() == to.size() * members, "reduce_scatter of {} bytes to {} members of {}",
        from.size(), members, to.size());
  std::vector<Part> parts;
  for (std::size_t m = 0; m < members; ++m) parts.push_back(from.subspan(m * to.size(), to.size()));
  const std::vector<Space> spaces = staging(members, to.size());
  exchange(group, call, parts, spaces);
  std::vector<Part> terms(spaces.begin(), spaces.end());
  terms[own] = parts[own];
  reduce_in_order(terms, full.dtype, reduction, to);
}

void Collectives::reduce_small(Group group, const Matrix& buffer, Reduction reduction,
                               const CallHeader& call) {
  const std::size_t members = transport_.members(group).size();
  const Space all = bytes_of(buffer);
  const std::vector<Part> parts(members, all);
  const std::vector<Space> spaces = staging(members, all.size());
  exchange(group, call, parts, spaces);
  std::vector<Part> terms(spaces.begin(), spaces.end());
  terms[static_cast<std::size_t>(transport_.place(group))] = all;
  reduce_in_order(terms, buffer.dtype, reduction, all);
}

void Collectives::reduce_large(Group group, const Matrix& buffer, Reduction reduction,
                               const CallHeader& call) {
  const std::size_t members = transport_.members(group).size();
  const auto own = static_cast<std::size_t>(transport_.place(group));
  const Space all = bytes_of(buffer);
  const auto starts = shares(all.size(), members, static_cast<std::size_t>(size_of(buffer.dtype)));
  const auto share = [&](std::size_t m) {
    return all.subspan(starts[m], starts[m + 1] - starts[m]);
  };
  std::vector<Part> parts;
  for (std::size_t m = 0; m < members; ++m) parts.push_back(share(m));
  const std::vector<Space> spaces = staging(members, share(own).size());
  exchange(group, call, parts, spaces);
  std::vector<Part> terms(spaces.begin(), spaces.end());
  terms[own] = parts[own];
  reduce_in_order(terms, buffer.dtype, reduction, share(own));

  const std::vector<Part> result(members, share(own));
  std::vector<Space> others;
  for (std::size_t m = 0; m < members; ++m) others.push_back(share(m));
  exchange(group, call, result, others);
}

void Collectives::broadcast(Group group, std::int32_t root, const Matrix& buffer,
                            const CallHeader& call) {
  const std::size_t members = transport_.members(group).size();
  std::vector<Part> parts(members);
  std::vector<Space> spaces(members);
  if (transport_.place(group) == root)
    parts.assign(members, bytes_of(buffer));
  else
    spaces[static_cast<std::size_t>(root)] = bytes_of(buffer);
  exchange(group, call, parts, spaces);
}

void Collectives::all_reduce(Group group, const Matrix& buffer, Reduction reduction,
                             CallHeader call) {
  call.op = static_cast<std::uint8_t>(Op::all_reduce);
  call.dtype = static_cast<std::uint8_t>(buffer.dtype);
  call.reduction = static_cast<std::uint8_t>(reduction);
  call.bytes = static_cast<std::int64_t>(bytes_of(buffer).size());
  if (transport_.members(group).size() < 2) return;
  call = numbered(call, group);
  if (bytes_of(buffer).size() <= kSmallBytes)
    reduce_small(group, buffer, reduction, call);
  else
    reduce_large(group, buffer, reduction, call);
}

void Collectives::sum(Group group, std::span<double> values, CallHeader call) {
  const std::size_t members = transport_.members(group).size();
  if (members < 2) return;
  const Space all = std::as_writable_bytes(values);
  call.op = static_cast<std::uint8_t>(Op::all_reduce);
  call.dtype = static_cast<std::uint8_t>(DType::uint8);
  call.bytes = static_cast<std::int64_t>(all.size());
  call = numbered(call, group);
  std::vector<double> others(members * values.size());
  std::vector<Space> spaces;
  for (std::size_t m = 0; m < members; ++m)
    spaces.push_back(
        std::as_writable_bytes(std::span(others).subspan(m * values.size(), values.size())));
  exchange(group, call, std::vector<Part>(members, all), spaces);
  std::ranges::copy(values, others.begin() + transport_.place(group) *
                                                 static_cast<std::ptrdiff_t>(values.size()));
  std::ranges::fill(values, 0.0);
  for (std::size_t i = 0; i < others.size(); ++i) values[i % values.size()] += others[i];
}

void Collectives::run(const Instr& instr, std::span<const Matrix> operands, CallHeader call) {
  const auto reduction = static_cast<Reduction>(instr.what);
  if (instr.op == Op::all_reduce) return all_reduce(instr.group, operands[0], reduction, call);
  call.op = static_cast<std::uint8_t>(instr.op);
  call.dtype = static_cast<std::uint8_t>(operands[0].dtype);
  call.reduction = instr.op == Op::reduce_scatter ? static_cast<std::uint8_t>(reduction) : 0;
  call.bytes = instr.bytes.value;
  call = numbered(call, instr.group);
  switch (instr.op) {
    case Op::all_gather:
      return all_gather(instr.group, operands[0], operands[1], call);
    case Op::reduce_scatter:
      return reduce_scatter(instr.group, operands[0], operands[1], reduction, call);
    case Op::broadcast:
      return broadcast(instr.group, instr.peer, operands[0], call);
    default:
      check(false, "the CPU backend has no {}", op_name(instr.op));
  }
}

}  // namespace trainyard
