#include "tests/cuda_kernels_check/run_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cuda/kernels/cuda_error.h"
#include "tests/backends/cpu/kernels/harness.h"

namespace trainyard::kernels_check {
namespace {

using testing::Buffer;

// Of large operands this many rows are drawn; the others repeat them.
constexpr std::int64_t kDrawnElements = 1 << 20;

double value_of(const CaseOperand& o, double normal, std::int64_t i, std::int64_t vocab) {
  switch (o.fill) {
    case Fill::normal:
      return normal;
    case Fill::positive:
      return std::abs(normal);
    case Fill::constant:
      return o.value;
    case Fill::tokens:
      return static_cast<double>(i * 7919 % vocab);
    case Fill::mask:
      return normal < 1 ? 1 : 0;
    default:
      return 0;
  }
}

// The operand's first rows, `elements` or all of it.
Buffer drawn(const Case& c, std::size_t index, std::int64_t elements) {
  const CaseOperand& o = c.operands[index];
  const std::int64_t n = std::min(elements, o.rows * o.columns);
  Buffer b = n == o.rows * o.columns
                 ? testing::normal(c.name + std::to_string(index), o.rows, o.columns)
                 : testing::normal(c.name + std::to_string(index), 1, n);
  for (std::size_t i = 0; i < b.values.size(); ++i)
    b.values[i] = value_of(o, b.values[i], static_cast<std::int64_t>(i), c.context.vocab);
  b.dtype = o.dtype;
  return b;
}

struct OnGpu {
  std::vector<DeviceBytes> memory;
  std::vector<Matrix> matrices;

  explicit OnGpu(const Case& c) {
    for (std::size_t i = 0; i < c.operands.size(); ++i) {
      const CaseOperand& o = c.operands[i];
      const auto bytes = static_cast<std::size_t>(o.rows * o.columns * size_of(o.dtype));
      memory.emplace_back(bytes);
      const auto values = testing::stored(drawn(c, i, kDrawnElements), o.dtype);
      for (std::size_t at = 0; at < bytes; at += values.size())
        require(cudaMemcpy(static_cast<char*>(memory.back().data()) + at, values.data(),
                           std::min(values.size(), bytes - at), cudaMemcpyHostToDevice),
                "cudaMemcpy");
      matrices.push_back({memory.back().data(), o.rows, o.columns, o.columns, o.dtype});
    }
  }
};

double unit_of(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-7 : dtype == DType::fp16 ? 0x1p-10 : 1e-4;
}

// The largest |gpu - cpu| / allowed.
double difference(const Buffer& gpu, const Buffer& cpu, double absolute) {
  const bool exact = cpu.dtype == DType::int32 || cpu.dtype == DType::uint8;
  double largest = 0;
  for (std::size_t i = 0; i < cpu.values.size(); ++i) {
    const double a = gpu.values[i], b = cpu.values[i];
    if (a == b) continue;
    const double off = std::abs(a - b) / (unit_of(cpu.dtype) * std::abs(b) + absolute);
    largest =
        exact || std::isnan(off) ? std::numeric_limits<double>::infinity() : std::max(largest, off);
  }
  return largest;
}

}  // namespace

Gpu::Gpu()
    : scalars_(sizeof(StepScalars)),
      no_cudnn_({AttentionChoice::Kernels::own, true}),
      all_cudnn_({AttentionChoice::Kernels::cudnn, true}),
      own_(static_cast<const StepScalars*>(scalars_.data()), no_cudnn_),
      cudnn_(static_cast<const StepScalars*>(scalars_.data()), all_cudnn_) {
  require(cudaStreamCreate(&stream_), "cudaStreamCreate");
}

Gpu::~Gpu() { cudaStreamDestroy(stream_); }

CudaKernelState& Gpu::prepare(const Case& c) {
  const StepScalars values = step_scalars(c.context);
  require(cudaMemcpy(scalars_.data(), &values, sizeof values, cudaMemcpyHostToDevice),
          "cudaMemcpy");
  CudaKernelState& state = c.by_cudnn ? cudnn_ : own_;
  state.prepare(c.spec, c.context);
  return state;
}

double Gpu::compare(const Case& c) {
  CudaKernelState& state = prepare(c);
  std::vector<Buffer> buffers;
  std::vector<std::vector<std::byte>> memory;
  std::vector<Matrix> matrices;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    buffers.push_back(drawn(c, i, std::numeric_limits<std::int64_t>::max()));
    memory.push_back(testing::stored(buffers[i], buffers[i].dtype));
  }
  std::vector<DeviceBytes> on_gpu;
  std::vector<Matrix> gpu;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& b = buffers[i];
    matrices.push_back({memory[i].data(), b.rows, b.columns, b.stride, b.dtype});
    on_gpu.emplace_back(memory[i].size());
    require(
        cudaMemcpy(on_gpu[i].data(), memory[i].data(), memory[i].size(), cudaMemcpyHostToDevice),
        "cudaMemcpy");
    gpu.push_back({on_gpu[i].data(), b.rows, b.columns, b.stride, b.dtype});
  }
  launch_kernel(c.spec, gpu, c.context, state, stream_);
  run_kernel(c.spec, matrices, c.context);
  require(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  double largest = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    testing::fetch(buffers[i], memory[i], buffers[i].dtype);
    Buffer from_gpu = buffers[i];
    require(
        cudaMemcpy(memory[i].data(), on_gpu[i].data(), memory[i].size(), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
    testing::fetch(from_gpu, memory[i], from_gpu.dtype);
    largest = std::max(largest, difference(from_gpu, buffers[i], c.absolute));
  }
  return largest;
}

double Gpu::time(const Case& c, bool once) {
  const int rounds = once ? 1 : 5, launches = once ? 1 : 4;
  CudaKernelState& state = prepare(c);
  const OnGpu on(c);
  cudaEvent_t start = nullptr, end = nullptr;
  require(cudaEventCreateWithFlags(&start, 0), "cudaEventCreateWithFlags");
  require(cudaEventCreateWithFlags(&end, 0), "cudaEventCreateWithFlags");
  std::vector<float> times;
  for (int round = -1; round < rounds; ++round) {
    require(cudaEventRecord(start, stream_), "cudaEventRecord");
    for (int i = 0; i < launches; ++i)
      launch_kernel(c.spec, on.matrices, c.context, state, stream_);
    require(cudaEventRecord(end, stream_), "cudaEventRecord");
    require(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    require(cudaEventElapsedTime(&milliseconds, start, end), "cudaEventElapsedTime");
    if (round >= 0) times.push_back(milliseconds);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  std::ranges::sort(times);
  return static_cast<double>(times[times.size() / 2]) * 1e-3 / launches;
}

}  // namespace trainyard::kernels_check
