#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/model/model.h"

namespace trainyard {

// How a tensor starts: weights of mean 0 and deviation 0.02, smaller by sqrt(2 layers) where a
// product ends on the residual stream (Radford et al. 2019, section 2.3), norms as the identity.
enum class Start : std::uint8_t { normal, residual, norm, zero };

// A parameter as the model knows it, whole: not fused, not padded, not split. Checkpoints and
// initial weights speak of these alone.
struct LogicalTensor {
  std::string name;
  std::int64_t rows = 0, columns = 0;
  Start start = Start::normal;
  std::int64_t elements() const { return rows * columns; }
};

// All parameters, in the model's order; `sequence` rows of learned positions:
//   embedding [vocab, hidden], positions [sequence, hidden],
//   layerN.norm1 [2 or 1, hidden] (gamma, beta), .q .k .v [hidden, …], .proj [query, hidden],
//   .norm2, .fc1 (SwiGLU: .gate and .value) [hidden, ffn], .fc2 [ffn, hidden],
//   biases [1, …] as NAME_bias (no fc2_bias in a parallel block), final_norm, head [vocab, hidden]
//   unless tied.
std::vector<LogicalTensor> logical_tensors(const Model& model, std::int64_t sequence);

// A rectangle of a logical tensor, and where it lies in a flat buffer of elements.
struct Rectangle {
  std::string tensor;
  std::array<std::int64_t, 2> shape{};  // of the whole tensor
  std::int64_t first_row = 0, first_column = 0, rows = 0, columns = 0;
  std::int64_t offset = 0;      // of its first element
  std::int64_t row_stride = 0;  // elements from row to row
  std::int64_t elements() const { return rows * columns; }
  bool operator==(const Rectangle&) const = default;
};

// All of a tensor, row after row from `offset` on.
Rectangle whole(const LogicalTensor& tensor, std::int64_t offset = 0);

}  // namespace trainyard
