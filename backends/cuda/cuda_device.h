#pragma once
#include <map>
#include <memory>
#include <optional>

#include "backends/common/kernel_contexts.h"
#include "backends/common/stream_device.h"
#include "backends/cuda/flight_recorder.h"
#include "backends/cuda/gpu_streams.h"
#include "backends/cuda/instr_times.h"
#include "backends/cuda/kernels/cudnn_attention.h"
#include "backends/cuda/kernels/state.h"
#include "backends/cuda/messages.h"
#include "backends/cuda/step_exchange.h"
#include "backends/cuda/step_graphs.h"

namespace trainyard {

// The streams of one rank on a GPU. A step is enqueued whole, and only finish() waits. Host work
// that blocks the issue of instructions in the program blocks them on the GPU: nothing on any
// stream that was issued later starts before it has ended, and the processor goes on. To be
// destroyed when its streams are drained.
class CudaDevice final : public StreamDevice {
 public:
  struct Setting {
    RankId rank{};
    std::chrono::milliseconds timeout{};  // without any progress, before a step counts as stuck
    bool graphs = false;                  // replay steps as CUDA graphs
    AttentionChoice attention;
  };
  CudaDevice(const Job& job, const Setting& setting, Communicators& comms,
             std::span<std::byte> arena);

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

  static Time now();  // of a clock that all processes of this host share
  GpuStreams& streams() { return streams_; }
  FlightRecorder& recorder() { return recorder_; }
  // Waits until the origin has reached its last instruction. Returns what went wrong; empty:
  // nothing. `late` tells time-outs.
  std::string wait_for_origin(Time deadline, bool& late);

 private:
  // What is kept of a program from step to step.
  struct Loaded {
    ProgramMemory memory;
    std::map<Stream, std::unique_ptr<CudaKernelState>> states;
    std::map<std::uint32_t, GpuEvent> starts, ends;  // by instruction
    std::vector<std::string> names;                  // of instructions, for profilers
    std::int64_t steps = 0;                          // begun
  };
  const Instr& at(std::uint32_t instr) const { return program_->code[instr]; }
  cudaStream_t stream_of(std::uint32_t instr) const { return streams_.of(at(instr).stream); }
  Loaded& load(const Program& program);
  // Enqueues `count` instructions from `first` on, which start and end together. Does nothing after
  // a failure, and when the step is a replay.
  template <class Work>
  void issue(std::uint32_t first, std::uint32_t count, Work&& work);
  void pass_fence(Stream stream);
  void do_host_work(std::uint32_t instr);
  template <class Work>
  void guard(Work&& work);
  void start_step();
  void end_step();
  StepReport failed(Outcome outcome, const std::string& problem);

  Setting setting_;
  KernelContexts contexts_;
  Communicators& comms_;
  std::span<std::byte> arena_;
  GpuStreams streams_;
  Messages messages_;
  StepExchange exchange_;
  StepGraphs graphs_;
  FlightRecorder recorder_;
  CudnnAttention attention_;
  GpuEvent fence_, last_;
  std::array<bool, kStreams> fenced_{};     // streams that have yet to wait for fence_
  std::map<std::uint64_t, Loaded> loaded_;  // by program_hash() of the program alone

  const Program* program_ = nullptr;
  std::uint64_t identity_ = 0;  // its key in loaded_
  Loaded* now_ = nullptr;
  StepInputs inputs_;
  std::optional<InstrTimes> times_;  // of a traced step
  Time started_;
  bool replays_ = false;
  std::string problem_;  // of this step
};

}  // namespace trainyard
