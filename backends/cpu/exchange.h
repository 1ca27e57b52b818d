#pragma once
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "backends/cpu/call_header.h"
#include "backends/cpu/transport.h"

namespace trainyard {

// Messages that travel together. The thread that waits for them moves them itself: no other thread
// takes part. A message is a header and a payload whose size follows from it.
class Exchange {
 public:
  // Throws PeerError when two ends do not fit: expect_same_call or expect_same_transfer.
  using Check = void (*)(RankId rank, const CallHeader& own, RankId peer, const CallHeader& theirs);

  Exchange(Transport& transport, Check expect) : transport_(transport), expect_(expect) {}

  // `own` is what this end says, or expects the other to say. One message a link and direction;
  // payloads must stay as they are until wait() returns.
  void send(Link link, const CallHeader& own, std::span<const std::byte> payload);
  void receive(Link link, const CallHeader& own, std::span<std::byte> payload);

  // Returns when all have ended. Throws PeerError: an end that does not fit, a rank that has closed
  // the connection or been silent for the time-out.
  void wait();

 private:
  struct Message {
    Link link;
    int socket = -1;
    bool sends = false;
    CallHeader own, theirs;
    std::span<std::byte> payload;
    std::size_t done = 0;  // bytes of header and payload

    std::size_t size() const { return sizeof own + payload.size(); }
    std::array<iovec, 2> rest();
  };
  void add(Link link, bool sends, const CallHeader& own, std::span<std::byte> payload);
  // Moves what can be moved now; false: nothing.
  bool advance();
  bool advance(Message& message);
  void sleep(SteadyTime deadline) const;

  Transport& transport_;
  Check expect_;
  std::vector<Message> messages_;  // not ended yet
  const Message* broken_ = nullptr;
};

}  // namespace trainyard
