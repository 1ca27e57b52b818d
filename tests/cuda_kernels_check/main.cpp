#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "core/error.h"
#include "tests/cuda_kernels_check/run_case.h"

// cuda_kernels_check [--small] [--json FILE] [--peak_tflops X --hbm_gbps Y]
// [--peak_fp32_tflops Z]: every kernel against the CPU's, and its time on this GPU, as a part of
// the roofline of the peaks given. --small: sizes for the host CUDA. Exit code 1: a kernel differs.
namespace trainyard::kernels_check {
namespace {

struct Options {
  bool small = false;
  std::string json;
  double peak_tflops = 0, peak_fp32_tflops = 0, hbm_gbps = 0;
};

Options parse(int count, char** words) {
  Options o;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&] {
      if (++i >= count) throw std::invalid_argument(word + " needs a value");
      return std::string(words[i]);
    };
    if (word == "--small")
      o.small = true;
    else if (word == "--json")
      o.json = value();
    else if (word == "--peak_tflops")
      o.peak_tflops = std::stod(value());
    else if (word == "--peak_fp32_tflops")
      o.peak_fp32_tflops = std::stod(value());
    else if (word == "--hbm_gbps")
      o.hbm_gbps = std::stod(value());
    else
      throw std::invalid_argument(word +
                                  ": not one of --small, --json FILE, --peak_tflops X, "
                                  "--peak_fp32_tflops Z, --hbm_gbps Y");
  }
  return o;
}

// Adds a case's time and rates; `roofline` is the least time of the peaks as a part of it.
void add_times(nlohmann::json& row, const Case& c, double seconds, const Options& o) {
  row["time_us"] = seconds * 1e6;
  row["gbs"] = c.bytes() / seconds * 1e-9;
  if (c.flops > 0) row["tflops"] = c.flops / seconds * 1e-12;
  const double tflops = c.spec.dtype == DType::fp32 ? o.peak_fp32_tflops : o.peak_tflops;
  if (tflops <= 0 || o.hbm_gbps <= 0) return;
  const double least = std::max(c.flops / (tflops * 1e12), c.bytes() / (o.hbm_gbps * 1e9));
  row["roofline"] = least / seconds;
}

std::string text_of(const nlohmann::json& row) {
  if (row.contains("skipped"))
    return fmt::format("{:28} {:5} left out: {}", row["kernel"].get<std::string>(),
                       row["dtype"].get<std::string>(), row["skipped"].get<std::string>());
  std::string text =
      fmt::format("{:28} {:5} {:>8.3f} of allowed  {:4}", row["kernel"].get<std::string>(),
                  row["dtype"].get<std::string>(), row["error"].get<double>(),
                  row["passed"].get<bool>() ? "ok" : "BAD");
  if (row.contains("time_us"))
    text += fmt::format(" {:>10.1f} us {:>8.1f} GB/s", row["time_us"].get<double>(),
                        row["gbs"].get<double>());
  if (row.contains("tflops")) text += fmt::format(" {:>8.1f} TFLOP/s", row["tflops"].get<double>());
  if (row.contains("roofline"))
    text += fmt::format(" {:>6.1f} % of the roofline", 100 * row["roofline"].get<double>());
  return text;
}

int check_all(const Options& options) {
  cudaDeviceProp properties{};
  int device = 0;
  cudaGetDevice(&device);
  cudaGetDeviceProperties(&properties, device);
  nlohmann::json report{{"schema", "trainyard.cuda_kernels_check.1"},
                        {"gpu", properties.name},
                        {"sizes", options.small ? "small" : "large"},
                        {"kernels", nlohmann::json::array()}};
  Gpu gpu;
  bool passed = true;
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    const auto compared = cases_of(options.small ? kSmall : kMedium, dtype);
    const auto timed = cases_of(options.small ? kSmall : kLarge, dtype);
    for (std::size_t i = 0; i < compared.size(); ++i) {
      nlohmann::json row{{"kernel", compared[i].name}, {"dtype", std::string(dtype_name(dtype))}};
      try {
        const double error = gpu.compare(compared[i]);
        row["error"] = error;
        row["passed"] = error <= 1;
        if (dtype != DType::fp16)
          add_times(row, timed[i], gpu.time(timed[i], options.small), options);
      } catch (const ConfigError& error) {  // cuDNN is not there, or has no engine
        row["passed"] = true;
        row["skipped"] = error.what();
      }
      passed = passed && row["passed"].get<bool>();
      fmt::print("{}\n", text_of(row));
      report["kernels"].push_back(std::move(row));
    }
  }
  report["passed"] = passed;
  if (!options.json.empty()) std::ofstream(options.json) << report.dump(1) << '\n';
  return passed ? 0 : 1;
}

}  // namespace
}  // namespace trainyard::kernels_check

int main(int count, char** words) {
  try {
    return trainyard::kernels_check::check_all(trainyard::kernels_check::parse(count, words));
  } catch (const std::invalid_argument& error) {
    fmt::print(stderr, "cuda_kernels_check: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "cuda_kernels_check: {}\n", error.what());
    return 1;
  }
}
