#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/program/program.h"

namespace trainyard {

// What one kernel took, where `threads` threads worked on it and the other cores were as busy.
struct KernelSample {
  std::string name;  // cost_name()
  std::int32_t threads = 1;
  double flops = 0, bytes = 0;  // of the KernelSpec; bytes read and written
  double us = 0;                // its stream's time from the end of the kernel before
};

// What one collective or message took, all its members ready at once, and what processor time it
// cost each of them.
struct CallSample {
  Op op{};
  std::int32_t ranks = 2;  // of a group; of messages: that send to each other pairwise
  double bytes = 0;        // as Instr::bytes
  double us = 0, work_us = 0;
};

// Of a device of its own that a rank computes on; 0: not measured.
struct DeviceCosts {
  double launch_us = 0, graph_launch_us = 0;  // to issue a kernel, and inside a graph
  double copy_gbs = 0;                        // from the host
};

struct Samples {
  std::vector<KernelSample> kernels;
  std::vector<CallSample> calls;
  DeviceCosts device;
};

}  // namespace trainyard
