#include "tests/backends/cuda/kernels/both.h"

#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "backends/cuda/kernels/cuda_error.h"
#include "backends/cuda/kernels/cudnn_attention.h"

namespace trainyard::testing {
namespace {

// Device memory of an operand, `offset` bytes off its alignment.
struct OnDevice {
  OnDevice(const std::vector<std::byte>& from, int offset)
      : memory(from.size() + static_cast<std::size_t>(offset)),
        at(static_cast<char*>(memory.data()) + offset) {
    require(cudaMemcpy(at, from.data(), from.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  DeviceBytes memory;
  char* at;
};

// One for all tests: a stream is a thread, and the state has much scratch memory.
struct Gpu {
  Gpu() { require(cudaStreamCreate(&stream), "cudaStreamCreate"); }
  void begin(const KernelContext& context) const {
    const StepScalars values = step_scalars(context);
    require(cudaMemcpy(scalars.data(), &values, sizeof values, cudaMemcpyHostToDevice),
            "cudaMemcpy");
  }
  DeviceBytes scalars{sizeof(StepScalars)};
  CudaKernelState& state(const AttentionChoice& attention) {
    auto& made = states[{attention.kernels, attention.repeatable}];
    if (made == nullptr)
      made = std::make_unique<State>(static_cast<const StepScalars*>(scalars.data()), attention);
    return made->kernels;
  }
  struct State {
    State(const StepScalars* at, const AttentionChoice& choice)
        : attention(choice), kernels(at, attention) {}
    CudnnAttention attention;
    CudaKernelState kernels;
  };
  std::map<std::pair<AttentionChoice::Kernels, bool>, std::unique_ptr<State>> states;
  cudaStream_t stream = nullptr;
};

Gpu& gpu() {
  static auto* const of_the_process = new Gpu;
  return *of_the_process;
}

std::vector<Matrix> matrices_of(const std::vector<Buffer>& buffers,
                                const std::vector<void*>& memory) {
  std::vector<Matrix> matrices;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    matrices.push_back(
        {memory[i], buffers[i].rows, buffers[i].columns, buffers[i].stride, buffers[i].dtype});
  return matrices;
}

std::vector<Buffer> on_cpu(const KernelSpec& spec, std::vector<Buffer> operands,
                           const KernelContext& context) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<void*> at;
  for (const Buffer& b : operands) memory.push_back(stored(b, b.dtype));
  for (auto& bytes : memory) at.push_back(bytes.data());
  run_kernel(spec, matrices_of(operands, at), context);
  for (std::size_t i = 0; i < operands.size(); ++i)
    fetch(operands[i], memory[i], operands[i].dtype);
  return operands;
}

void expect_near(const Buffer& cuda, const Buffer& cpu, Bound bound, std::size_t operand) {
  const bool exact = cpu.dtype == DType::int32 || cpu.dtype == DType::uint8;
  int wrong = 0;
  for (std::int64_t i = 0; i < cpu.rows && wrong < 3; ++i)
    for (std::int64_t j = 0; j < cpu.stride && wrong < 3; ++j) {
      const double a = cuda.at(i, j), b = cpu.at(i, j);
      const bool gap = j >= cpu.columns;
      const double allowed = exact || gap ? 0 : bound.relative * std::abs(b) + bound.absolute;
      if (std::abs(a - b) <= allowed || a == b) continue;
      ++wrong;
      ADD_FAILURE() << "operand " << operand << " at " << i << ", " << j << (gap ? " (gap)" : "")
                    << ": " << a << ", on the CPU " << b << ", allowed " << allowed;
    }
}

}  // namespace

Bound bound_of(DType dtype, double sums) {
  if (dtype == DType::bf16) return {0x1p-7, sums};
  if (dtype == DType::fp16) return {0x1p-10, sums};
  return {sums, sums};
}

Buffer normal_in(DType dtype, std::string_view name, std::int64_t rows, std::int64_t columns,
                 std::int64_t gap) {
  Buffer b = normal(name, rows, columns, gap);
  for (double& v : b.values) v = rounded(v, dtype);
  b.dtype = dtype;
  return b;
}

Buffer zeros_in(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t gap) {
  Buffer b = zeros(rows, columns, gap);
  for (double& v : b.values) v = rounded(v, dtype);
  b.dtype = dtype;
  return b;
}

void run_on_gpu(const KernelSpec& spec, std::vector<Buffer>& operands, const KernelContext& context,
                const OnGpu& how) {
  std::vector<OnDevice> memory;
  std::vector<void*> at;
  for (const Buffer& b : operands) {
    memory.emplace_back(stored(b, b.dtype), how.offset);
    at.push_back(memory.back().at);
  }
  gpu().begin(context);
  CudaKernelState& state = gpu().state(how.attention);
  state.prepare(spec, context);
  launch_kernel(spec, matrices_of(operands, at), context, state, gpu().stream);
  require(cudaStreamSynchronize(gpu().stream), "cudaStreamSynchronize");
  for (std::size_t i = 0; i < operands.size(); ++i) {
    std::vector<std::byte> bytes(stored(operands[i], operands[i].dtype).size());
    require(cudaMemcpy(bytes.data(), at[i], bytes.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    fetch(operands[i], bytes, operands[i].dtype);
  }
}

std::vector<Buffer> expect_same(const KernelSpec& spec, const std::vector<Buffer>& operands,
                                const KernelContext& context, Bound bound, const OnGpu& how) {
  const std::vector<Buffer> cpu = on_cpu(spec, operands, context);
  std::vector<Buffer> cuda = operands;
  run_on_gpu(spec, cuda, context, how);
  const ::testing::ScopedTrace where(
      __FILE__, __LINE__,
      std::string(kernel_info(spec.kind).name).append(" in ").append(dtype_name(spec.dtype)));
  for (std::size_t i = 0; i < cpu.size(); ++i) expect_near(cuda[i], cpu[i], bound, i);
  return cuda;
}

}  // namespace trainyard::testing
