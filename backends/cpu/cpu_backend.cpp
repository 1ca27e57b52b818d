#include "backends/cpu/cpu_backend.h"

#include <array>
#include <cmath>
#include <new>
#include <utility>
#include <vector>

#include "backends/common/patience.h"
#include "backends/cpu/cpu_device.h"
#include "core/error.h"

namespace trainyard {
namespace {

constexpr std::align_val_t kAlignment{64};

struct AlignedDelete {
  void operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }
};

class CpuBackend final : public RealBackend {
 public:
  CpuBackend(const Job& job, const RealBackendOptions& options)
      : ranks_{options.rank},
        store_(options.store),
        transport_(options.rank, {timeout_of(job), options.one_host, options.interface}),
        size_(static_cast<std::size_t>(options.memory.value)),
        arena_(new (kAlignment) std::byte[size_]{}),
        memory_({arena_.get(), size_}),
        binding_(options.processors),
        workers_(options.threads),
        device_(job, options.rank, transport_, {arena_.get(), size_}, &workers_),
        control_(transport_, kControlChannel) {}

  std::string_view name() const override { return "cpu"; }
  std::span<const RankId> local_ranks() const override { return ranks_; }
  Time now() const override { return device_.now(); }
  RankMemory& memory() override { return memory_; }

  void connect(const Mesh& mesh) override {
    transport_.connect(mesh, store_);
    transport_.open(transport_.links(Group::world, kControlChannel));
  }

  void submit(RankId rank, const Program& program, const StepInputs& inputs) override {
    check(rank == ranks_[0], "rank {} runs elsewhere", index(rank));
    program_ = &program;
    inputs_ = inputs;
  }

  StepReport wait(Time deadline) override {
    check(program_ != nullptr, "rank {} has nothing to run", index(ranks_[0]));
    return run_on_streams(device_, *std::exchange(program_, nullptr), inputs_, deadline);
  }

  void sum_over_ranks(std::span<double> values) override;

 private:
  static constexpr std::uint8_t kControlChannel = 0xfe;

  std::array<RankId, 1> ranks_;
  Store* store_;
  Transport transport_;
  std::size_t size_;
  std::unique_ptr<std::byte[], AlignedDelete> arena_;
  HostRankMemory memory_;
  ProcessorBinding binding_;  // of this thread and of all that follow
  Workers workers_;
  CpuDevice device_;
  Collectives control_;
  const Program* program_ = nullptr;
  StepInputs inputs_;
  std::int64_t sums_ = 0;
};

void CpuBackend::sum_over_ranks(std::span<double> values) {
  CallHeader call;
  call.step = sums_++;
  control_.sum(Group::world, values, call);
}

}  // namespace

std::unique_ptr<RealBackend> make_cpu_backend(const Job& job, const RealBackendOptions& options) {
  return std::make_unique<CpuBackend>(job, options);
}

}  // namespace trainyard
