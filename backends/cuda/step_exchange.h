#pragma once
#include <cstdint>
#include <map>
#include <optional>

#include "backends/common/operands.h"
#include "backends/cuda/gpu.h"
#include "backends/cuda/gpu_streams.h"
#include "backends/cuda/kernels/step_scalars.h"
#include "core/engine/backend.h"

namespace trainyard {

// What a processor and a GPU tell each other in a step, by way of pinned memory at places that stay
// the same: tokens and scalars on the way in, the loss, the norm of the gradients and whether they
// overflowed on the way out.
class StepExchange {
 public:
  StepExchange();

  StepScalars* scalars() const { return static_cast<StepScalars*>(scalars_.data()); }
  // Makes the program's staging buffers, unless it has some under this number of its own; `memory`
  // must stay until the next call.
  void use(std::uint64_t number, const Program& program, const ProgramMemory& memory);
  // Of the step that follows; no step is under way.
  void stage(const StepInputs& inputs, const StepScalars& scalars);

  // On the origin of the streams, before and after all else.
  void enqueue_inputs(cudaStream_t stream) const;
  void enqueue_results(cudaStream_t stream) const;
  // A copy instruction: from the staging buffer where its source is one.
  void enqueue_copy(const Instr& instr, const Program& program, const ProgramMemory& memory,
                    cudaStream_t stream) const;
  // The norm that HostWork::read_scalar looks at: judged on the GPU, told to the processor.
  void enqueue_norm(const Matrix& norm, cudaStream_t stream);

  // Adds what the step gave to its report; the step has ended.
  void collect(const StepInputs& inputs, StepReport& report) const;

 private:
  struct Pinned {
    StepScalars scalars_in, scalars_out;
    float loss[2], norm[2];
  };
  const Pinned& pinned() const { return *pinned_.as<Pinned>(); }
  Pinned& pinned() { return *pinned_.as<Pinned>(); }

  DeviceBytes scalars_;
  PinnedBytes pinned_;
  const void* loss_ = nullptr;  // sum and number of targets; null on stages without the loss
  bool reads_norm_ = false;
  struct Staging {
    std::uint32_t buffer;
    PinnedBytes tokens;
  };
  std::map<std::uint64_t, std::optional<Staging>> stagings_;
  const std::optional<Staging>* staging_ = nullptr;
};

}  // namespace trainyard
