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

class CudaBackend final : public RealBackend {
 public:
  CudaBackend(const Job& job, const RealBackendOptions& options)
      : gpu_(options.place),
        ranks_{options.rank},
        store_(options.store),
        timeout_(timeout_of(job)),
        memory_(options.rank, static_cast<std::size_t>(options.memory.value)),
        comms_(options.rank, timeout_),
        device_(job, {options.rank, timeout_, job.running.cuda_graphs}, comms_,
                memory_.addresses()),
        sums_(kMostSums * sizeof(double)),
        pinned_sums_(kMostSums * sizeof(double)) {}

  ~CudaBackend() override {
    if (failed_) comms_.abort();
  }

  std::string_view name() const override { return "cuda"; }
  std::span<const RankId> local_ranks() const override { return ranks_; }
  Time now() const override { return CudaDevice::now(); }
  RankMemory& memory() override { return memory_; }

  void connect(const Mesh& mesh) override {
    size_ = mesh.size();
    failed_ = true;  // until all are there
    comms_.connect(mesh, store_);
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
        run_on_streams(device_, *std::exchange(program_, nullptr), inputs_, deadline);
    if (report.outcome != Outcome::done) report.message = give_up(report.message);
    return report;
  }

  void sum_over_ranks(std::span<double> values) override;

 private:
  static constexpr std::size_t kMostSums = 4096;

  // Ends all messages and tells what the others say of themselves.
  std::string give_up(const std::string& problem) {
    failed_ = true;
    const std::string own = device_.recorder().positions(), dump = device_.recorder().dump();
    comms_.abort();
    if (store_ == nullptr || size_ < 2) return problem;
    return problem + where_all_are(*store_, {ranks_[0], size_}, own, dump);
  }
  void sum_some(std::span<double> values);

  ChosenGpu gpu_;
  std::array<RankId, 1> ranks_;
  Store* store_;
  std::chrono::milliseconds timeout_;
  GpuMemory memory_;
  Communicators comms_;
  CudaDevice device_;
  DeviceBytes sums_;
  PinnedBytes pinned_sums_;
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
  cudaStream_t stream = device_.streams().origin();
  std::string problem;
  bool late = false;
  try {
    std::memcpy(pinned_sums_.as<double>(), values.data(), values.size_bytes());
    require(cudaMemcpyAsync(sums_.data(), pinned_sums_.as<void>(), values.size_bytes(),
                            cudaMemcpyHostToDevice, stream),
            "cudaMemcpyAsync");
    comms_.complete(ncclAllReduce(sums_.data(), sums_.data(), values.size(), ncclDouble, ncclSum,
                                  comms_.of(Group::world, Stream::data), stream),
                    comms_.of(Group::world, Stream::data), "summing over all ranks");
    require(cudaMemcpyAsync(pinned_sums_.as<void>(), sums_.data(), values.size_bytes(),
                            cudaMemcpyDeviceToHost, stream),
            "cudaMemcpyAsync");
    problem = device_.wait_for_origin(kNever, late);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (!problem.empty())
    throw std::runtime_error(give_up(fmt::format(
        "rank {}: summing over all ranks between steps: {}", index(ranks_[0]), problem)));
  std::memcpy(values.data(), pinned_sums_.as<double>(), values.size_bytes());
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
