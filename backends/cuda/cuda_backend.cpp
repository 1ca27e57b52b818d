#include "backends/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <utility>

#include "backends/common/patience.h"
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/silent_ranks.h"
#include "core/error.h"

namespace trainyard {
namespace {

// Chosen before anything else of the backend touches the GPU.
struct ChosenGpu {
  explicit ChosenGpu(std::int32_t number) { choose_gpu(number); }
};

AttentionChoice attention_of(const Running& running) {
  using Kernels = AttentionChoice::Kernels;
  return {running.attention == "own"     ? Kernels::own
          : running.attention == "cudnn" ? Kernels::cudnn
                                         : Kernels::automatic,
          running.repeatable};
}

class CudaBackend final : public RealBackend {
 public:
  CudaBackend(const Job& job, const RealBackendOptions& options)
      : gpu_(options.place),
        ranks_{options.rank},
        store_(options.store),
        used_(std::make_unique<Used>(job, options)) {}

  // Work that does not end even when its messages are aborted keeps what it uses for good: to free
  // memory under it would corrupt whatever takes it next, or wait as long as the work.
  ~CudaBackend() override {
    if (failed_) used_->comms.abort();
    if (!used_->device.streams().drain(timeout_of_end())) static_cast<void>(used_.release());
  }

  std::string_view name() const override { return "cuda"; }
  std::span<const RankId> local_ranks() const override { return ranks_; }
  Time now() const override { return CudaDevice::now(); }
  RankMemory& memory() override { return used_->memory; }

  void connect(const Mesh& mesh) override {
    size_ = mesh.size();
    failed_ = true;  // until all are there
    used_->comms.connect(mesh, store_);
    const std::string copies = used_->comms.register_memory(used_->memory.addresses());
    if (!copies.empty() && index(ranks_[0]) == 0)
      fmt::print(stderr, "messages are copied into NCCL's buffers: {}\n", copies);
    failed_ = false;
  }

  void submit(RankId rank, const Program& program, const StepInputs& inputs) override {
    check(rank == ranks_[0], "rank {} runs elsewhere", index(rank));
    program_ = &program;
    inputs_ = inputs;
  }

  StepReport wait(Time deadline) override {
    check(program_ != nullptr, "rank {} has nothing to run", index(ranks_[0]));
    StepReport report =
        run_on_streams(used_->device, *std::exchange(program_, nullptr), inputs_, deadline);
    if (report.outcome != Outcome::done) report.message = give_up(report.message);
    return report;
  }

  void sum_over_ranks(std::span<double> values) override;

 private:
  static constexpr std::size_t kMostSums = 4096;

  // Ends all messages and tells what the others say of themselves.
  std::string give_up(const std::string& problem) {
    failed_ = true;
    const std::string own = used_->device.recorder().positions(),
                      dump = used_->device.recorder().dump();
    used_->comms.abort();
    if (store_ == nullptr || size_ < 2) return problem;
    return problem + where_all_are(*store_, {ranks_[0], size_, used_->timeout}, own, dump);
  }
  void sum_some(std::span<double> values);

  // All that work on the GPU uses.
  struct Used {
    Used(const Job& job, const RealBackendOptions& options)
        : timeout(timeout_of(job)),
          memory(options.rank, static_cast<std::size_t>(options.memory.value),
                 job.mesh().size() > 1),
          comms(options.rank, timeout),
          device(job, {options.rank, timeout, job.running.cuda_graphs, attention_of(job.running)},
                 comms, memory.addresses()),
          sums(kMostSums * sizeof(double)),
          pinned_sums(kMostSums * sizeof(double)) {}
    std::chrono::milliseconds timeout;
    GpuMemory memory;
    Communicators comms;
    CudaDevice device;
    DeviceBytes sums;
    PinnedBytes pinned_sums;
  };
  std::chrono::milliseconds timeout_of_end() const {
    constexpr std::chrono::milliseconds kMost = std::chrono::seconds(10);
    return std::min(used_->timeout, kMost);
  }

  ChosenGpu gpu_;
  std::array<RankId, 1> ranks_;
  Store* store_;
  std::unique_ptr<Used> used_;
  std::int32_t size_ = 1;
  bool failed_ = false;
  const Program* program_ = nullptr;
  StepInputs inputs_;
};

void CudaBackend::sum_over_ranks(std::span<double> values) {
  if (size_ < 2) return;
  for (std::size_t first = 0; first < values.size(); first += kMostSums)
    sum_some(values.subspan(first, std::min(kMostSums, values.size() - first)));
}

void CudaBackend::sum_some(std::span<double> values) {
  cudaStream_t stream = used_->device.streams().origin();
  std::string problem;
  bool late = false;
  try {
    std::memcpy(used_->pinned_sums.as<double>(), values.data(), values.size_bytes());
    require(cudaMemcpyAsync(used_->sums.data(), used_->pinned_sums.as<void>(), values.size_bytes(),
                            cudaMemcpyHostToDevice, stream),
            "cudaMemcpyAsync");
    used_->comms.complete(
        ncclAllReduce(used_->sums.data(), used_->sums.data(), values.size(), ncclDouble, ncclSum,
                      used_->comms.of(Group::world, Stream::data), stream),
        used_->comms.of(Group::world, Stream::data), "summing over all ranks");
    require(cudaMemcpyAsync(used_->pinned_sums.as<void>(), used_->sums.data(), values.size_bytes(),
                            cudaMemcpyDeviceToHost, stream),
            "cudaMemcpyAsync");
    problem = used_->device.wait_for_origin(kNever, late);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (!problem.empty())
    throw std::runtime_error(give_up(fmt::format(
        "rank {}: summing over all ranks between steps: {}", index(ranks_[0]), problem)));
  std::memcpy(values.data(), used_->pinned_sums.as<double>(), values.size_bytes());
}

}  // namespace

std::unique_ptr<RealBackend> make_cuda_backend(const Job& job, const RealBackendOptions& options) {
  return std::make_unique<CudaBackend>(job, options);
}

Machine cuda_machine() {
  choose_gpu(0);
  cudaDeviceProp about{};
  require(cudaGetDeviceProperties(&about, 0), "cudaGetDeviceProperties");
  Machine machine = this_machine();
  machine.processor = about.name;
  machine.memory = {static_cast<std::int64_t>(about.totalGlobalMem)};
  machine.sms = about.multiProcessorCount;
  require(cudaGetDeviceCount(&machine.devices), "cudaGetDeviceCount");
  return machine;
}

}  // namespace trainyard
