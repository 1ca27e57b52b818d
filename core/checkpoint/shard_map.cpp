#include "core/checkpoint/shard_map.h"

#include <algorithm>

namespace trainyard {
namespace {

// Rows first … end of a rectangle, columns from `column` on.
Rectangle part_of(const Rectangle& r, std::int64_t row, std::int64_t rows, std::int64_t column,
                  std::int64_t columns) {
  Rectangle part = r;
  part.first_row += row;
  part.first_column += column;
  part.rows = rows;
  part.columns = columns;
  part.offset += row * r.row_stride + column;
  return part;
}

// Columns of row `row` that lie in elements first … end of the buffer.
struct Columns {
  std::int64_t first, count;
};
Columns columns_in(const Rectangle& r, std::int64_t row, std::int64_t first, std::int64_t end) {
  const std::int64_t start = r.offset + row * r.row_stride;
  const std::int64_t low = std::max(first, start), high = std::min(end, start + r.columns);
  return {low - start, std::max<std::int64_t>(0, high - low)};
}

void clip_one(const Rectangle& r, ElementRange range, std::vector<Rectangle>& out) {
  const std::int64_t end = range.first + range.count;
  std::int64_t row = std::max<std::int64_t>(0, (range.first - r.offset) / r.row_stride);
  while (row < r.rows && r.offset + row * r.row_stride < end) {
    const Columns columns = columns_in(r, row, range.first, end);
    std::int64_t rows = 1;
    if (columns.count == r.columns) {  // with it, all whole rows that follow
      const std::int64_t last_whole = (end - r.columns - r.offset) / r.row_stride;
      rows = std::min(r.rows - 1, last_whole) - row + 1;
    }
    if (columns.count > 0) {
      out.push_back(part_of(r, row, rows, columns.first, columns.count));
      out.back().offset -= range.first;
    }
    row += rows;
  }
}

}  // namespace

ElementRange stepped_range(const BucketLayout& bucket, std::int32_t replica) {
  const bool sharded = bucket.stepped < bucket.elements;
  return {sharded ? replica * bucket.stepped : 0, bucket.stepped};
}

std::vector<Rectangle> clip(std::span<const HeldRectangle> rectangles, ElementRange range) {
  std::vector<Rectangle> parts;
  for (const HeldRectangle& r : rectangles) clip_one(r, range, parts);
  return parts;
}

std::vector<BucketPieces> pieces_to_save(const Job& job, const Coord& coord) {
  const std::int32_t stage = coord[Axis::pipeline], tensor = coord[Axis::tensor];
  const std::int32_t replica = job.mesh().replica(coord);
  std::vector<BucketPieces> pieces;
  const std::vector<BucketLayout> layouts = bucket_layouts(job, stage, tensor);
  for (std::size_t b = 0; b < layouts.size(); ++b) {
    const BucketLayout& bucket = layouts[b];
    const bool sharded = bucket.stepped < bucket.elements;
    if ((!sharded && replica > 0) || (bucket.tied && stage > 0)) continue;
    std::vector<HeldRectangle> mine;
    for (const HeldRectangle& r : bucket.rectangles)
      if (!r.replicated || tensor == 0) mine.push_back(r);
    std::vector<Rectangle> parts = clip(mine, stepped_range(bucket, replica));
    if (!parts.empty()) pieces.push_back({static_cast<std::int32_t>(b), std::move(parts)});
  }
  return pieces;
}

Rectangle overlap(const Rectangle& a, const Rectangle& b) {
  const std::int64_t row = std::max(a.first_row, b.first_row);
  const std::int64_t column = std::max(a.first_column, b.first_column);
  const std::int64_t rows = std::min(a.first_row + a.rows, b.first_row + b.rows) - row;
  const std::int64_t columns =
      std::min(a.first_column + a.columns, b.first_column + b.columns) - column;
  if (a.tensor != b.tensor || rows <= 0 || columns <= 0) return part_of(a, 0, 0, 0, 0);
  return part_of(a, row - a.first_row, rows, column - a.first_column, columns);
}

}  // namespace trainyard
