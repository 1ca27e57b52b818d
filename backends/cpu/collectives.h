#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/common/operands.h"
#include "backends/cpu/call_header.h"
#include "backends/cpu/transport.h"
#include "core/program/program.h"

namespace trainyard {

// Collectives among the members of groups. Every member sends its part straight to
// the member that needs it, and sums are taken in member order in fp32, so all members get the
// same bits and a run repeats. Members whose calls differ in kind, size, type or order get a
// PeerError that shows both.
//
// One object a stream: calls of a stream run one after another, those of several streams at once.
class Collectives {
 public:
  // `channel` tells apart streams, and uses outside programs: of the transport's links to members.
  Collectives(Transport& transport, std::uint8_t channel)
      : transport_(transport), channel_(channel) {}

  // `call` has step, instr; the rest is filled in here.
  void run(const Instr& instr, std::span<const Matrix> operands, CallHeader call);
  // Sum over the members in place.
  void all_reduce(Group group, const Matrix& buffer, Reduction reduction, CallHeader call);

  // The same for numbers outside the programs.
  void sum(Group group, std::span<double> values, CallHeader call);

 private:
  using Part = std::span<const std::byte>;
  using Space = std::span<std::byte>;

  CallHeader numbered(CallHeader call, Group group);
  // Sends `parts[m]` to and receives `spaces[m]` from member m, and checks that its call is the
  // same one. This rank's own are not touched.
  void exchange(Group group, const CallHeader& call, std::span<const Part> parts,
                std::span<const Space> spaces);

  void all_gather(Group group, const Matrix& shard, const Matrix& full, const CallHeader& call);
  void reduce_scatter(Group group, const Matrix& full, const Matrix& shard, Reduction reduction,
                      const CallHeader& call);
  void reduce_small(Group group, const Matrix& buffer, Reduction reduction, const CallHeader& call);
  void reduce_large(Group group, const Matrix& buffer, Reduction reduction, const CallHeader& call);
  void broadcast(Group group, std::int32_t root, const Matrix& buffer, const CallHeader& call);
  // One space of `bytes` for each member, kept from call to call.
  std::vector<Space> staging(std::size_t members, std::size_t bytes);

  Transport& transport_;
  std::uint8_t channel_;
  std::array<std::int64_t, kGroups> sequences_{};
  std::vector<std::byte> staging_;
};

}  // namespace trainyard
