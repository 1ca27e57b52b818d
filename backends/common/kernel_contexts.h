#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backends/common/kernel_call.h"
#include "core/config/job.h"
#include "core/engine/backend.h"
#include "core/program/program.h"

namespace trainyard {

// What a rank's kernels have to know beside their operands, instruction by instruction.
class KernelContexts {
 public:
  KernelContexts(const Job& job, RankId rank);

  // Of the step that follows. `program` must stay until the next call.
  void begin(const Program& program, const StepInputs& inputs);
  // The step's gradients overflowed: its optimizer kernels change nothing.
  void skip_update() { base_.skip_update = true; }
  bool skipped() const { return base_.skip_update; }
  // Those of no instruction: what changes from step to step.
  const KernelContext& scalars() const { return base_; }
  KernelContext of(const Instr& instr) const;

 private:
  std::int64_t micro_sequences_, first_sample_;
  KernelContext base_;
  std::map<std::string, std::vector<FlatTensor>, std::less<>> tensors_;  // by bucket
  const Program* program_ = nullptr;
};

}  // namespace trainyard
