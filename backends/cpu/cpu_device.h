#pragma once
#include <array>
#include <chrono>
#include <memory>
#include <optional>

#include "backends/common/kernel_contexts.h"
#include "backends/common/operands.h"
#include "backends/common/stream_device.h"
#include "backends/cpu/collectives.h"
#include "backends/cpu/stream_threads.h"
#include "backends/cpu/transport.h"
#include "simulator/workers.h"

namespace trainyard {

// The streams of one rank as threads of this process.
class CpuDevice final : public StreamDevice {
 public:
  CpuDevice(const Job& job, RankId rank, Transport& transport, std::span<std::byte> arena,
            Workers* workers);

  void begin(const Program& program, const StepInputs& inputs) override;
  void kernel(std::uint32_t instr) override;
  void collective(std::uint32_t instr) override;
  void transfers(std::uint32_t first, std::uint32_t count) override;
  void copy(std::uint32_t instr) override;
  void host(std::uint32_t instr) override;
  bool host_work(std::uint32_t instr) override;
  void record(std::uint32_t instr) override;
  void wait_for(Stream stream, std::uint32_t instr) override;
  StepReport finish(Time deadline) override;

  Time now() const;  // of a clock that all processes of this host share

 private:
  const Instr& at(std::uint32_t instr) const { return program_->code[instr]; }
  // Enqueues the work of `count` instructions from `first` on, which start and end together.
  template <class Work>
  void push(std::uint32_t first, std::uint32_t count, Work work);
  // Does the work, and notes when if the step is traced.
  template <class Work>
  void timed(std::uint32_t first, std::uint32_t count, Work&& work);
  void open_links();
  void do_host_work(std::uint32_t instr);
  // Copies the tokens of `step` to where the load instruction wants them.
  void stage(const Instr& load, std::int64_t step);
  void stage_first_batch();
  void read_norm(const Instr& instr);
  Collectives& collectives(Stream stream) { return collectives_[static_cast<std::size_t>(stream)]; }
  StepReport report();
  const float* find_loss() const;
  std::string waiting() const;
  std::string describe(std::uint32_t instr) const;

  std::span<std::byte> arena_;
  RankId rank_;
  KernelContexts contexts_;
  Workers* workers_;
  std::vector<Collectives> collectives_;  // by stream
  Transport& transport_;
  StreamThreads streams_;

  const Program* program_ = nullptr;
  std::optional<ProgramMemory> memory_;
  const float* loss_ = nullptr;  // sum and number of targets; null on stages without the loss
  StepInputs inputs_;
  Time started_;
  std::vector<TraceEvent> trace_;  // by instruction; empty: this step is not traced
  std::int64_t staged_step_ = -1;  // step whose tokens lie in the staging buffer
  const BatchFeed* staged_feed_ = nullptr;
  double gradient_norm_ = 0;
  bool norm_known_ = false;
};

}  // namespace trainyard
