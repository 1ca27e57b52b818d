#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/config/job.h"
#include "core/plan/parameter_layout.h"

namespace trainyard {

// Elements of a bucket's flat buffer.
struct ElementRange {
  std::int64_t first = 0, count = 0;
};

// The share of a bucket that a data rank's optimizer steps: all of it, or under ZeRO its
// data_rank-th equal part.
ElementRange stepped_range(const BucketLayout& bucket, std::int32_t data_rank);

// The parts of the rectangles that lie in the range, their offsets counted from its start. A
// rectangle becomes up to three: a partial row, whole rows, a partial row.
std::vector<Rectangle> clip(std::span<const HeldRectangle> rectangles, ElementRange range);

// Rectangles of one bucket's stepped share, with offsets into it.
struct BucketPieces {
  std::int32_t bucket = 0;
  std::vector<Rectangle> rectangles;
};

// What a rank writes into a checkpoint: of all it steps, what no rank before it writes too, so that
// all ranks together write every element of every logical tensor once. A bucket may be missing.
std::vector<BucketPieces> pieces_to_save(const Job& job, const Coord& coord);

// The elements that both have: the part of `a`, and where it lies in the buffer of `a`. No elements
// if they are of different tensors or apart.
Rectangle overlap(const Rectangle& a, const Rectangle& b);

}  // namespace trainyard
