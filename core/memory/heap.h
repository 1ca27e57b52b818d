#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainyard {

// Address space for memory that one stream takes and gives back in a known order. Short-lived
// blocks lie at the high end and long-lived ones at the low end, so that they do not fragment each
// other. A freed block is first offered to requests of its own size and lifetime; only when nothing
// else fits are such blocks merged with their neighbours.
class Heap {
 public:
  enum class Life : std::uint8_t { brief, lasting };  // within a pass, or longer

  // `expected`: where the high end is, at first. `sizes`: bytes of each size class.
  Heap(std::int64_t expected, std::vector<std::int64_t> sizes);

  std::int64_t take(std::size_t size_class, Life life);  // offset
  void give(std::int64_t offset, std::size_t size_class, Life life);
  std::int64_t end() const { return end_; }  // no block has ever reached beyond

 private:
  struct Block {
    std::int64_t begin, end;
    std::int64_t size() const { return end - begin; }
  };
  std::vector<std::int64_t>& kept(std::size_t size_class, Life life) {
    return kept_[2 * size_class + static_cast<std::size_t>(life)];
  }
  std::int64_t cut(std::int64_t size, Life life);  // -1: nothing fits
  void merge_kept();
  void grow(std::int64_t size);

  std::vector<std::int64_t> sizes_;
  std::vector<std::vector<std::int64_t>> kept_;  // offsets of freed blocks, by class and life
  std::vector<Block> free_;                      // by address, no two adjacent
  std::int64_t end_;
};

}  // namespace trainyard
