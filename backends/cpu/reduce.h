#pragma once
#include <cstddef>
#include <span>

#include "core/program/program.h"

namespace trainyard {

// out = parts[0] + parts[1] + … (or their maximum), element by element in that order; 16-bit types
// are summed in fp32 and rounded once. `out` may be one of the parts.
void reduce_in_order(std::span<const std::span<const std::byte>> parts, DType dtype,
                     Reduction reduction, std::span<std::byte> out);

}  // namespace trainyard
