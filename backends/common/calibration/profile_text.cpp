#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/common/calibration/calibration.h"
#include "core/config/choices.h"

namespace trainyard {
namespace {

std::string percent(const FitError& error) {
  if (error.count == 0) return "-";
  return fmt::format("{:.1f} % ({:.0f} %)", 100 * error.mean, 100 * error.largest);
}

// TOML strings in double quotes.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

std::string list(const std::vector<double>& values) {
  std::string out;
  for (const double value : values) out += fmt::format("{}{:.5g}", out.empty() ? "" : ", ", value);
  return "[" + out + "]";
}

std::string kernel_text(const std::vector<KernelFit>& fits) {
  std::vector<double> t0, flop, byte;
  for (const KernelFit& fit : fits) {
    t0.push_back(fit.cost[0]);
    flop.push_back(fit.cost[1] * 1e6);
    byte.push_back(fit.cost[2] * 1e6);
  }
  return fmt::format("[cluster.gpu.measured_kernels.{}]\nt0_us = {}\nflop_ps = {}\nbyte_ps = {}\n",
                     fits[0].name, list(t0), list(flop), list(byte));
}

std::string call_text(const CallFit& fit) {
  return fmt::format(
      "[cluster.measured_calls.{}]\nwork_us = {:.5g}\nwork_peer_us = {:.5g}\n"
      "work_byte_ns = {:.5g}\nwait_us = {:.5g}\nwait_peer_us = {:.5g}\nwait_byte_ns = {:.5g}\n",
      op_name(fit.op), fit.work[0], fit.work[1], fit.work[2] * 1e3, fit.wait[0], fit.wait[1],
      fit.wait[2] * 1e3);
}

std::string cores_text(const Calibration& c, const std::string& origin) {
  const std::string_view precision = choice_name(c.machine.precision);
  return fmt::format(
      "# {}: {}, {} cores.\n"
      "# Kernels of trainings in {}, which it is for, with {} threads, all cores busy; calls "
      "among\n"
      "# {} ranks.\n"
      "# Use it: trainyard sim JOB --set cluster.profile=THIS_FILE\n"
      "[cluster.node]\ngpus = 1024  # any number of ranks\ncores = {}\n\n"
      "[cluster.gpu]\nname = {}\nsms = {}\nmemory = {}\n"
      "peak_{}_tflops = {:.5g}  # of a core, the fastest product\n"
      "memory_bandwidth_gbs = {:.5g}  # of all cores, the fastest kernel\n"
      "measured_threads = [{}]\n",
      origin, c.machine.processor, c.machine.cores, precision, fmt::join(c.threads, ", "),
      fmt::join(c.ranks, ", "), c.machine.cores,
      quoted(fmt::format("{}, {} cores", c.machine.processor, c.machine.cores)), c.machine.cores,
      c.machine.memory.value, precision, c.peak_flops * 1e-12, c.peak_bytes * 1e-9,
      fmt::join(c.threads, ", "));
}

std::string devices_text(const Calibration& c, const std::string& origin) {
  const std::string_view precision = choice_name(c.machine.precision);
  return fmt::format(
      "# {}: {} x {}.\n"
      "# Kernels of trainings in {}, which it is for{}.\n"
      "# Use it: trainyard sim JOB --set cluster.profile=THIS_FILE\n"
      "[cluster.node]\ngpus = {}\npcie_gbs = {:.5g}  # the fastest copy from the host\n\n"
      "[cluster.gpu]\nname = {}\nsms = {}\nmemory = {}\n"
      "peak_{}_tflops = {:.5g}  # the fastest product; a data sheet's is what MFU is usually of\n"
      "memory_bandwidth_gbs = {:.5g}  # the fastest kernel\n"
      "host_launch_us = {:.5g}  # between launches of kernels with nothing to do\n"
      "graph_launch_us = {:.5g}  # the same in a CUDA graph\n"
      "measured_threads = [1]\n",
      origin, c.machine.devices, c.machine.processor, precision,
      c.ranks.empty() ? "" : fmt::format("; calls among {} ranks", fmt::join(c.ranks, ", ")),
      c.machine.devices, c.device.copy_gbs, quoted(c.machine.processor), c.machine.sms,
      c.machine.memory.value, precision, c.peak_flops * 1e-12, c.peak_bytes * 1e-9,
      c.device.launch_us, c.device.graph_launch_us);
}

}  // namespace

std::string profile_text(const Calibration& c, const std::string& origin) {
  std::string out = c.machine.devices > 0 ? devices_text(c, origin) : cores_text(c, origin);
  std::vector<KernelFit> fits;
  for (const KernelFit& fit : c.kernels) {
    fits.push_back(fit);
    if (fits.size() == c.threads.size()) {
      out += fmt::format("\n{}", kernel_text(fits));
      fits.clear();
    }
  }
  for (const CallFit& fit : c.calls) out += fmt::format("\n{}", call_text(fit));
  return out;
}

std::string error_table(const Calibration& c) {
  std::string out = fmt::format("{:<24}{:>8}{:>9}{:>18}{:>18}\n", "mean (largest) error", "threads",
                                "samples", "fitted", "held out");
  for (const KernelFit& fit : c.kernels)
    out += fmt::format("{:<24}{:>8}{:>9}{:>18}{:>18}\n", fit.name, fit.threads,
                       fit.fitted.count + fit.held_out.count, percent(fit.fitted),
                       percent(fit.held_out));
  for (const CallFit& fit : c.calls)
    out += fmt::format("{:<24}{:>8}{:>9}{:>18}{:>18}\n", op_name(fit.op), "-",
                       fit.fitted.count + fit.held_out.count, percent(fit.fitted),
                       percent(fit.held_out));
  return out;
}

}  // namespace trainyard
