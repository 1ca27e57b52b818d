#pragma once
#include <vector>

#include "core/config/job.h"
#include "tools/trainyard/fit.h"

namespace trainyard {

// The constants that a table of each kind can tell, with the bounds of their keys.
std::vector<FitConstant> gemm_constants();
std::vector<FitConstant> attention_constants(const Job& job);  // of software.attention
std::vector<FitConstant> memory_constants();
std::vector<FitConstant> nccl_constants();

}  // namespace trainyard
