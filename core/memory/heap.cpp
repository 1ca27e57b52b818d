#include "core/memory/heap.h"

#include <algorithm>
#include <utility>

namespace trainyard {

Heap::Heap(std::int64_t expected, std::vector<std::int64_t> sizes)
    : sizes_(std::move(sizes)), kept_(2 * sizes_.size()), end_(expected) {
  if (expected > 0) free_.push_back({0, expected});
}

std::int64_t Heap::take(std::size_t size_class, Life life) {
  std::vector<std::int64_t>& same = kept(size_class, life);
  if (!same.empty()) {
    const std::int64_t offset = same.back();
    same.pop_back();
    return offset;
  }
  const std::int64_t size = sizes_[size_class];
  std::int64_t offset = cut(size, life);
  if (offset < 0) {
    merge_kept();
    offset = cut(size, life);
  }
  if (offset < 0) {
    grow(size);
    offset = cut(size, life);
  }
  return offset;
}

void Heap::give(std::int64_t offset, std::size_t size_class, Life life) {
  kept(size_class, life).push_back(offset);
}

std::int64_t Heap::cut(std::int64_t size, Life life) {
  const auto fits = [size](const Block& block) { return block.size() >= size; };
  if (life == Life::lasting) {
    const auto block = std::find_if(free_.begin(), free_.end(), fits);
    if (block == free_.end()) return -1;
    const std::int64_t offset = block->begin;
    block->begin += size;
    if (block->size() == 0) free_.erase(block);
    return offset;
  }
  const auto block = std::find_if(free_.rbegin(), free_.rend(), fits);
  if (block == free_.rend()) return -1;
  block->end -= size;
  const std::int64_t offset = block->end;
  if (block->size() == 0) free_.erase(std::next(block).base());
  return offset;
}

void Heap::merge_kept() {
  for (std::size_t k = 0; k < kept_.size(); ++k) {
    for (const std::int64_t offset : kept_[k]) free_.push_back({offset, offset + sizes_[k / 2]});
    kept_[k].clear();
  }
  std::sort(free_.begin(), free_.end(),
            [](const Block& a, const Block& b) { return a.begin < b.begin; });
  std::size_t merged = 0;
  for (std::size_t f = 1; f < free_.size(); ++f) {
    if (free_[merged].end == free_[f].begin)
      free_[merged].end = free_[f].end;
    else
      free_[++merged] = free_[f];
  }
  if (!free_.empty()) free_.resize(merged + 1);
}

void Heap::grow(std::int64_t size) {
  if (free_.empty() || free_.back().end != end_) free_.push_back({end_, end_});
  end_ = free_.back().begin + size;
  free_.back().end = end_;
}

}  // namespace trainyard
