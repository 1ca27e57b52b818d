#pragma once
#include <cstdint>

#include "backends/cuda/kernels/state.h"

namespace trainyard::cuda_kernels {

// Elements of a chunk at most. Chunks end at multiples of it, so that all but the first of a tensor
// begin on 16 bytes.
inline constexpr std::int64_t kChunk = 1 << 14;

// Chunks of a flat operand at most: each tensor and each gap may begin and end within a chunk.
inline std::int64_t most_chunks(std::int64_t elements, std::int64_t tensors) {
  return elements / kChunk + 2 * tensors + 2;
}

// Tensors of a flat operand of `elements`, in device memory; one with all elements if there are
// none. Elements of no tensor make chunks too, behind all others: their weights are rounded.
DeviceTensors upload_tensors(std::span<const FlatTensor> tensors, std::int64_t elements);

}  // namespace trainyard::cuda_kernels
