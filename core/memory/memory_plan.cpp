#include "core/memory/memory_plan.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>
#include <vector>

#include "core/memory/heap.h"
#include "core/memory/liveness.h"
#include "core/program/happens_before.h"

namespace trainyard {
namespace {

constexpr std::int64_t kAlignment = 256;  // of CUDA allocations; enough for vector loads and NCCL

std::int64_t aligned(Bytes size) {
  return (std::max<std::int64_t>(size.value, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

// Sizes of a program's buffer types: equal ones share a class.
struct SizeClasses {
  explicit SizeClasses(const Program& program) {
    for (const BufferType& type : program.buffer_types) sizes.push_back(aligned(type.size()));
    const std::vector<std::int64_t> by_type = sizes;
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    for (const std::int64_t size : by_type)
      class_of_type.push_back(static_cast<std::size_t>(
          std::lower_bound(sizes.begin(), sizes.end(), size) - sizes.begin()));
  }
  std::vector<std::int64_t> sizes;
  std::vector<std::size_t> class_of_type;
};

// Lays out transient buffers in two regions. What compute takes lies in a heap: a block returns to
// it as soon as compute is known to run after the block's last uses. What other streams take
// (receives, gathered tensors: few sizes) lies in pools of equal blocks, each reused by the first
// buffer that is known to come after its last user.
class TransientPlan {
 public:
  explicit TransientPlan(Program& program)
      : program_(program),
        order_(program),
        live_(program, order_),
        classes_(program),
        heap_(expected_heap(), classes_.sizes),
        pools_(classes_.sizes.size()) {}

  void run(std::int64_t base) {
    std::size_t next = 0;
    const auto used = live_.by_first_use();
    for (std::uint32_t i = 0; i < program_.code.size(); ++i) {
      for (; next < used.size() && live_.first_use(used[next]) == i; ++next) take(used[next]);
      ended_.clear();
      for (const Operand operand : operands_of(program_, program_.code[i])) {
        const std::uint32_t root = live_.root(operand.buffer);
        if (root == kNone || live_.last_use(root) != i) continue;
        if (std::find(ended_.begin(), ended_.end(), root) != ended_.end()) continue;
        ended_.push_back(root);
        give(root, program_.code[i].stream);
      }
    }
    for (const std::uint32_t root : used)
      program_.buffers[root].offset.value += base + (pooled(root) ? heap_.end() : 0);
    program_.arena_bytes = {base + heap_.end() + pools_end_};
  }

 private:
  std::int64_t size_of(std::uint32_t root) const { return classes_.sizes[class_of(root)]; }
  std::size_t class_of(std::uint32_t root) const {
    return classes_.class_of_type[program_.buffers[root].type];
  }
  bool pooled(std::uint32_t root) const {
    return live_.first_stream(root) != Stream::compute || !live_.born_at_first_use(root);
  }
  Heap::Life life_of(std::uint32_t root) const {
    return program_.code[live_.first_use(root)].pass == program_.code[live_.last_use(root)].pass
               ? Heap::Life::brief
               : Heap::Life::lasting;
  }

  // The most bytes that buffers of the heap hold at once, by list order: the heap's least size.
  std::int64_t expected_heap() const {
    std::vector<std::int64_t> change(program_.code.size() + 1);
    for (const std::uint32_t root : live_.by_first_use()) {
      if (pooled(root)) continue;
      change[live_.first_use(root)] += size_of(root);
      change[live_.last_use(root) + 1] -= size_of(root);
    }
    std::int64_t held = 0, most = 0;
    for (const std::int64_t c : change) most = std::max(most, held += c);
    return most;
  }

  void take(std::uint32_t root) {
    std::int64_t& offset = program_.buffers[root].offset.value;
    if (pooled(root)) {
      offset = take_from_pool(root);
    } else {
      collect(live_.first_use(root));
      offset = heap_.take(class_of(root), life_of(root));
    }
  }

  // The latest block given back that may be used: streams that know less need the older ones.
  std::int64_t take_from_pool(std::uint32_t root) {
    std::vector<std::uint32_t>& pool = pools_[class_of(root)];
    const Clock born = live_.born(root);
    const auto reusable = std::find_if(pool.rbegin(), pool.rend(),
                                       [&](std::uint32_t old) { return live_.over(old, born); });
    if (reusable == pool.rend()) return std::exchange(pools_end_, pools_end_ + size_of(root));
    const std::int64_t offset = program_.buffers[*reusable].offset.value;
    pool.erase(std::next(reusable).base());
    return offset;
  }

  // Called for the last use of a buffer, on `stream`.
  void give(std::uint32_t root, Stream stream) {
    if (pooled(root)) {
      pools_[class_of(root)].push_back(root);
    } else if (live_.on_one_stream(root)) {
      return_to_heap(root);
    } else {
      pending_[static_cast<std::size_t>(stream)].push_back(root);
    }
  }

  // Returns the blocks whose last uses have ended before compute instruction `index`.
  void collect(std::uint32_t index) {
    if (order_.knowledge(index) == collected_) return;
    collected_ = order_.knowledge(index);
    const Known known = order_.known(index);
    for (std::deque<std::uint32_t>& queue : pending_) {
      while (!queue.empty() && live_.over(queue.front(), known)) {
        return_to_heap(queue.front());
        queue.pop_front();
      }
    }
  }
  void return_to_heap(std::uint32_t root) {
    heap_.give(program_.buffers[root].offset.value, class_of(root), life_of(root));
  }

  Program& program_;
  HappensBefore order_;
  Liveness live_;
  SizeClasses classes_;
  Heap heap_;
  std::vector<std::vector<std::uint32_t>> pools_;  // by size: buffers whose block is free
  std::int64_t pools_end_ = 0;
  std::array<std::deque<std::uint32_t>, kStreams> pending_;  // by stream of the last use
  std::vector<std::uint32_t> ended_;  // buffers that the current instruction uses last
  std::uint32_t collected_ = kNone;
};

}  // namespace

void plan_memory(Program& program) {
  std::int64_t end = 0;
  for (BufferSpec& buffer : program.buffers) {
    const BufferType& type = program.buffer_types[buffer.type];
    buffer.offset = {-1};
    if (!type.persistent || buffer.parent != kNone) continue;
    buffer.offset = {end};
    end += aligned(type.size());
  }
  program.persistent_bytes = {end};
  TransientPlan(program).run(end);
  for (BufferSpec& buffer : program.buffers) {
    if (buffer.parent == kNone) continue;
    const Bytes parent = program.buffers[buffer.parent].offset;
    if (parent.value >= 0) buffer.offset = parent + buffer.view_offset;
  }
}

MemoryUse memory_use(const Program& program) {
  const std::vector<UseSpan> spans = use_spans(program);
  const auto transient = [&](std::uint32_t b) {
    return spans[b].used() && !is_persistent(program, b);
  };
  std::vector<std::int64_t> change(program.code.size() + 1);
  for (std::uint32_t b = 0; b < spans.size(); ++b) {
    if (!transient(b)) continue;
    change[spans[b].first] += program.buffer_size(b).value;
    change[spans[b].last + 1] -= program.buffer_size(b).value;
  }
  std::int64_t held = 0, most = 0;
  std::uint32_t moment = 0;
  for (std::uint32_t i = 0; i < change.size(); ++i) {
    held += change[i];
    if (held <= most) continue;
    most = held;
    moment = i;
  }
  // What does not outlive its pass (recomputed, or recomputed later) is no kept activation.
  const auto class_of = [&](std::uint32_t b) {
    const MemoryClass given = program.buffer_types[program.buffers[b].type].memory;
    if (given != MemoryClass::activations || !transient(b)) return given;
    return program.code[spans[b].first].pass == program.code[spans[b].last].pass
               ? MemoryClass::workspace
               : given;
  };
  MemoryUse use;
  use.peak = program.arena_bytes;
  for (std::uint32_t b = 0; b < spans.size(); ++b) {
    const BufferSpec& spec = program.buffers[b];
    const BufferType& type = program.buffer_types[spec.type];
    if (spec.parent != kNone) continue;
    if (type.persistent || (transient(b) && spans[b].first <= moment && moment <= spans[b].last))
      use.by_class[static_cast<std::size_t>(class_of(b))] += type.size();
  }
  return use;
}

}  // namespace trainyard
