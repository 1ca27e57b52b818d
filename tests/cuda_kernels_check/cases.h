#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "backends/common/kernel_call.h"

namespace trainyard::kernels_check {

// Which numbers an operand begins with.
enum class Fill { normal, positive, constant, tokens, mask, zero };

struct CaseOperand {
  std::int64_t rows, columns;
  DType dtype;
  int passes;  // over memory: 1 for an operand that is read or written, 2 for one that is both
  Fill fill = Fill::normal;
  double value = 0;  // Fill::constant
};

// One kernel launch to compare with the CPU's and to time.
struct Case {
  std::string name;
  KernelSpec spec;
  std::vector<CaseOperand> operands;
  KernelContext context;
  bool by_cudnn = false;  // instead of the own kernel
  double flops = 0;
  double absolute = 1e-4;  // what a result may be off beside a unit in its last place
  double bytes() const;
};

// A decoder's layer and ends, from which shapes follow.
struct Sizes {
  std::int64_t batch, sequence, heads, kv_heads, dim, vocab, elements;
  std::int64_t tokens() const { return batch * sequence; }
  std::int64_t hidden() const { return heads * dim; }
};

// Shapes of a GPU's benchmark: 8192 tokens of a model of 2048, 124 million parameters.
inline constexpr Sizes kLarge{8, 1024, 16, 16, 128, 50304, 124'000'000};
// What the CPU compares in seconds; no size is a multiple of a block.
inline constexpr Sizes kMedium{2, 200, 4, 2, 64, 1003, 100'003};
inline constexpr Sizes kSmall{1, 70, 2, 1, 64, 133, 20'001};

std::vector<Case> cases_of(const Sizes& sizes, DType dtype);

}  // namespace trainyard::kernels_check
