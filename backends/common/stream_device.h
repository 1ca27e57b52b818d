#pragma once
#include <cstdint>
#include <string_view>

#include "core/engine/backend.h"
#include "core/program/program.h"

namespace trainyard {

// The streams of one rank, whatever runs them. Every call but host_work() only enqueues; work on a
// stream runs in the order in which it was enqueued.
class StreamDevice {
 public:
  virtual ~StreamDevice() = default;
  // Makes `program` and `inputs` those of the calls that follow, until finish().
  virtual void begin(const Program& program, const StepInputs& inputs) = 0;
  virtual void kernel(std::uint32_t instr) = 0;
  virtual void collective(std::uint32_t instr) = 0;
  // Sends and receives that start together: `count` instructions from `first` on.
  virtual void transfers(std::uint32_t first, std::uint32_t count) = 0;
  virtual void copy(std::uint32_t instr) = 0;
  // Work of a processor on a stream other than Stream::host.
  virtual void host(std::uint32_t instr) = 0;
  // The same on Stream::host: returns when it is done, waits included; false: the step has failed.
  virtual bool host_work(std::uint32_t instr) = 0;
  // Makes all that was enqueued so far on the instruction's stream known as `instr`.
  virtual void record(std::uint32_t instr) = 0;
  // What is enqueued on `stream` from now on starts after what `instr` was recorded for.
  virtual void wait_for(Stream stream, std::uint32_t instr) = 0;
  // Returns when everything enqueued has ended, failed, or `deadline` (of the device's clock) is
  // reached.
  virtual StepReport finish(Time deadline) = 0;
};

// Enqueues a whole pass of the program, in list order, with an event only where another stream
// waits; then finishes it.
StepReport run_on_streams(StreamDevice& device, const Program& program, const StepInputs& inputs,
                          Time deadline);

}  // namespace trainyard
