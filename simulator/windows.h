#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "simulator/step.h"

namespace trainyard {

// Decides, while a program is compiled, what its GEMMs know of collectives in flight.
//
// A GEMM is slowed while a collective of its rank occupies compute units, but when that collective
// ends can depend on ranks that have not been simulated so far. So a GEMM looks at windows that
// follow from its own stream alone: a collective opens its stream's window when it is launched
// and keeps it open for its own duration; what the compute stream has since waited for corrects
// the window (resync). Hence results do not depend on the order in which gangs are walked.
class Windows {
 public:
  // Notes a collective or send that was issued and takes `duration`.
  struct Launch {
    std::uint32_t step;
    int window;
    std::int64_t duration;
  };
  void launched(const Launch& launch);
  // Notes that the compute stream waits for `step` of `stream`.
  void waited(std::uint32_t step, Stream stream);

  // What must stand in front of a GEMM; forgets it.
  struct Helper {
    StepKind kind;
    int window;
    std::uint32_t step;  // the collective launched, or the step waited for
    std::int64_t duration;
  };
  std::vector<Helper> take();

  static int window_of(Stream stream);  // -1: none

 private:
  struct Queue {
    std::vector<std::uint32_t> steps;  // launched, rising
    std::vector<std::int64_t> ends;    // their durations, summed up
    std::uint32_t waited = kNone;
  };
  std::array<Queue, kWindows> queues_;
  std::vector<Launch> fresh_;
};

}  // namespace trainyard
