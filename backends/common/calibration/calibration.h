#pragma once
#include <string>
#include <vector>

#include "backends/common/calibration/fit.h"
#include "backends/common/calibration/samples.h"
#include "core/config/job.h"
#include "core/types.h"

namespace trainyard {

// Where samples were taken.
struct Machine {
  std::string processor;  // as the system names it
  std::int32_t cores = 1;
  Bytes memory;
  // Where ranks have devices of their own, whose name and memory stand above: how many, and what
  // each has of multiprocessors.
  std::int32_t devices = 0, sms = 0;
  Precision precision = Precision::fp32;  // that kernels computed in
};
// This one, with the cores that this process may use.
Machine this_machine();

// A fit, how far it is from the samples it was made of, and from those that were held out of it.
struct KernelFit {
  std::string name;
  std::int32_t threads = 1;
  Coefficients cost{};  // us: fixed, a FLOP, a byte
  FitError fitted, held_out;
};
struct CallFit {
  Op op{};
  Coefficients work{}, wait{};  // us: fixed, another rank, a byte received
  FitError fitted, held_out;    // of the whole time on this machine
};

struct Calibration {
  Machine machine;
  std::vector<std::int32_t> threads, ranks;  // that were measured, rising
  std::vector<KernelFit> kernels;            // by name, then threads
  std::vector<CallFit> calls;
  double peak_flops = 0, peak_bytes = 0;  // a second: of a core, of the machine; of a device
  DeviceCosts device;
};

// Fits MeasuredKernel and MeasuredCall of core/config/hardware.h to the samples. Every fourth
// sample of a kind, in order of size, is held out where there are enough.
Calibration calibrate(const Samples& samples, const Machine& machine);

// The cluster profile, with `origin` (who wrote it when) in its first line.
std::string profile_text(const Calibration& calibration, const std::string& origin);

// A table of all fits and their errors.
std::string error_table(const Calibration& calibration);

}  // namespace trainyard
