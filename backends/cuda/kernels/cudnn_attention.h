#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/kernels/attention_plans.h"
#include "backends/cuda/kernels/launch.h"

namespace trainyard {

// Which of a thread's attention kernels are cuDNN's: a plan for each shape, made before the first
// launch, and why there is none for the others.
class CudnnAttention {
 public:
  explicit CudnnAttention(const AttentionChoice& choice) : choice_(choice) {}

  // Makes the plan of a kernel that will be launched; returns the scratch memory it needs, none for
  // a kernel that is no fused attention. Throws ConfigError when cuDNN is asked for and has none.
  std::size_t prepare(const KernelSpec& spec);
  // Puts the kernel on its stream if cuDNN does it; false: ours has to.
  bool run(const cuda_kernels::CudaLaunch& launch);
  // Lines that say which shapes cuDNN does not do and why, each once.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  std::unique_ptr<AttentionPlan> plan(const KernelSpec& spec, const AttentionCase& what);
  std::unique_ptr<AttentionPlan> refuse(const KernelSpec& spec, const AttentionCase& what,
                                        const std::string& reason);

  AttentionChoice choice_;
  std::unique_ptr<AttentionPlans> library_;
  std::map<AttentionCase, std::unique_ptr<AttentionPlan>> plans_;  // null: not cuDNN's
  std::vector<std::string> notes_;
  std::set<std::string> told_;
};

}  // namespace trainyard
