#pragma once
#include <cstddef>
#include <string>
#include <vector>

// Whether work is ordered follows from the calls that gave it to streams, and not from when it ran:
// a missing wait is found in every run. Waits of the host (for events, streams) order nothing here.
namespace trainyard::cuda_on_host {

struct LoggedWork {
  std::string range;       // innermost NVTX range in which it was given to its stream
  std::size_t stream = 0;  // of its device, and its place in that stream's work, from 1 on
  std::size_t place = 0;
  std::vector<std::size_t> known;  // for each stream, the place of the last work that ended before
};

// Whether `later` starts after `earlier` has ended, in every run.
bool ordered(const LoggedWork& earlier, const LoggedWork& later);

// Begins to log the device's work, captured work aside; ends that, and gives what was logged.
void log_order(int device);
std::vector<LoggedWork> logged_order(int device);

}  // namespace trainyard::cuda_on_host
