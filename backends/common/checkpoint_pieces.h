#pragma once
#include <optional>
#include <string>

#include "core/model/logical_tensors.h"

namespace trainyard {

// The name of a rectangle of a tensor in a shard: "layer0.q.m" if it is all of it, else with its
// rows and columns behind it, "layer0.q.m[0:4,8:16]".
std::string piece_name(const Rectangle& rectangle, const char* part);

// A piece's tensor with its part ("layer0.q.m") and its rectangle, rows close together from the
// start of the piece; empty unless `name` is well-formed. `shape`: of the tensor in the shard.
struct NamedPiece {
  std::string tensor_part;
  std::int64_t first_row = 0, first_column = 0;
};
std::optional<NamedPiece> parse_piece_name(const std::string& name);

}  // namespace trainyard
