#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/program/program.h"

namespace trainyard {

// Which instructions of a step a rank has issued, and how far the GPU got with them as far as
// events tell: those that others wait for, and all messages.
class FlightRecorder {
 public:
  static constexpr std::size_t kRemembered = 64;

  explicit FlightRecorder(RankId rank) : rank_(rank) {}
  void begin(const Program& program, std::int64_t step);
  // The step's instructions run as one graph: no event tells of them.
  void in_graph() { in_graph_ = true; }
  // Issued; `start` and `end` were recorded before and after it, or are null.
  void note(std::uint32_t instr, cudaEvent_t start, cudaEvent_t end);

  // How many streams' instructions are known to have ended.
  std::size_t ended();
  // "in instruction 17 of step 3 (all_reduce on stream tensor, …)", one for each stream at work.
  std::string positions();
  // A line for each of the last instructions that ended and of those that follow, 64 in all: done,
  // running or waiting.
  std::string dump();
  std::string describe(std::uint32_t instr) const;

 private:
  struct Issued {
    std::uint32_t instr;
    cudaEvent_t start, end;
  };
  struct Lane {
    std::vector<Issued> issued;
    std::size_t done = 0;  // of issued, known to have ended
  };
  void advance(Lane& lane);
  std::string state_of(std::uint32_t instr) const;
  static bool reached(cudaEvent_t event);

  RankId rank_;
  const Program* program_ = nullptr;
  std::int64_t step_ = 0;
  bool in_graph_ = false;
  std::array<Lane, kStreams> lanes_;
  std::vector<std::uint32_t> order_;  // as issued
};

}  // namespace trainyard
