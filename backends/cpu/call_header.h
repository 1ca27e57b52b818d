#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "backends/cpu/transport.h"

namespace trainyard {

// What one rank says about a call before any data moves; all members must say the same.
struct CallHeader {
  std::int64_t step = 0;
  std::int64_t sequence = 0;  // of the calls on this group and stream in this run
  std::int64_t bytes = 0;     // of the full size
  std::uint32_t instr = 0;
  std::uint32_t tag = 0;  // transfers
  std::uint8_t op = 0, group = 0, dtype = 0, reduction = 0;
  std::uint8_t unused[4] = {};  // no byte of the message is left unset
};
static_assert(sizeof(CallHeader) == 40);

// "all_reduce of 1024 bytes of fp32 (sum) over tensor, instruction 17 of step 3".
std::string describe(const CallHeader& header);

// Throw PeerError that shows both calls unless they are the same collective, or the two ends of one
// transfer.
void expect_same_call(RankId rank, const CallHeader& own, RankId peer, const CallHeader& theirs);
void expect_same_transfer(RankId rank, const CallHeader& own, RankId peer,
                          const CallHeader& theirs);

inline std::span<std::byte> bytes_of_header(CallHeader& header) {
  return std::as_writable_bytes(std::span(&header, 1));
}

}  // namespace trainyard
