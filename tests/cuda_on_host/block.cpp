#include "tests/cuda_on_host/block.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cuda_on_host/fiber.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

constinit thread_local uint3 threadIdx{};
constinit thread_local uint3 blockIdx{};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace trainyard {

// The most a block of compute capability 9.0 may have.
constexpr std::size_t kSharedBytes = 227 * 1024;
namespace cuda_kernels {
constinit thread_local uint4 dynamic_shared_memory[kSharedBytes / sizeof(uint4)] = {};
}
using cuda_kernels::dynamic_shared_memory;

namespace cuda_on_host {
namespace {

constexpr int kWarp = 32, kMaxThreads = 1024;
constexpr unsigned char kPoison = 0xff;  // a NaN in every floating type
constexpr std::size_t kEdge = 256;  // bytes beyond the shared memory asked for that are watched

enum class State : std::uint8_t { absent, ready, at_barrier, in_warp, ended };

struct Thread {
  State state = State::absent;
  Fiber* fiber = nullptr;
  Where where;
  std::uint32_t exchanges = 0;
};

struct Warp {
  // Two turns of values: a lane can be one operation ahead of others that have yet to read.
  std::array<std::array<std::uint64_t, kWarp>, 2> values{};
  int arrived = 0;
};

bool same(const Where& a, const Where& b) {
  if (a.line() != b.line()) return false;
  // The same address as a rule, and characters take as long as the rest of a warp's operation.
  return a.file_name() == b.file_name() || std::string_view(a.file_name()) == b.file_name();
}

std::string place(const Where& w) {
  return std::string(w.file_name()) + ":" + std::to_string(w.line());
}

class Block {
 public:
  void run(const Grid& grid, const std::function<void()>& kernel);

  void sync_threads(const Where& where);
  const std::uint64_t* exchange(std::uint32_t mask, std::uint64_t value, const Where& where);

 private:
  void run_block(const Grid& grid);
  bool run_warp(int warp, bool up);
  void resume(int t);
  void pass_barrier();
  void fail(int t, const std::string& problem) const;
  [[maybe_unused]] void check_edge(std::size_t bytes) const;  // AddressSanitizer does it itself
  Fiber* fiber();

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::array<Thread, kMaxThreads> threads_;
  std::array<Warp, kMaxThreads / kWarp> warps_;
  std::function<void()> body_;
  std::exception_ptr thrown_;
  int count_ = 0, current_ = -1, phase_ = 0;
};

thread_local Block block_of_this_thread;

char* shared_bytes() { return reinterpret_cast<char*>(dynamic_shared_memory); }

Fiber* Block::fiber() {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>());
    return fibers_.back().get();
  }
  Fiber* const f = idle_.back();
  idle_.pop_back();
  return f;
}

void Block::fail(int t, const std::string& problem) const {
  throw KernelError("thread " + std::to_string(t) + " of block (" + std::to_string(blockIdx.x) +
                    ", " + std::to_string(blockIdx.y) + ", " + std::to_string(blockIdx.z) + ") " +
                    problem);
}

void Block::run(const Grid& grid, const std::function<void()>& kernel) {
  const std::uint64_t threads = std::uint64_t{grid.threads.x} * grid.threads.y * grid.threads.z;
  if (threads == 0 || threads > kMaxThreads || grid.blocks.x == 0 || grid.blocks.y == 0 ||
      grid.blocks.z == 0 || grid.blocks.y > 65535 || grid.blocks.z > 65535 ||
      grid.shared_bytes > kSharedBytes)
    throw KernelError("no GPU runs a grid of (" + std::to_string(grid.blocks.x) + ", " +
                      std::to_string(grid.blocks.y) + ", " + std::to_string(grid.blocks.z) +
                      ") blocks of " + std::to_string(threads) + " threads with " +
                      std::to_string(grid.shared_bytes) + " bytes");
  count_ = static_cast<int>(threads);
  gridDim = grid.blocks;
  blockDim = grid.threads;
  body_ = [this, &kernel] {
    try {
      kernel();
    } catch (...) {
      thrown_ = std::current_exception();
    }
    threads_[static_cast<std::size_t>(current_)].state = State::ended;
  };
  try {
    for (unsigned z = 0; z < grid.blocks.z; ++z)
      for (unsigned y = 0; y < grid.blocks.y; ++y)
        for (unsigned x = 0; x < grid.blocks.x; ++x) {
          blockIdx = {x, y, z};
          run_block(grid);
        }
  } catch (...) {
    idle_.clear();
    fibers_.clear();  // some stopped in the middle of the kernel
    thrown_ = nullptr;
    throw;
  }
}

void Block::run_block(const Grid& grid) {
  const std::size_t watched = std::min(grid.shared_bytes + kEdge, kSharedBytes);
  std::memset(shared_bytes(), kPoison, watched);
#if defined(__SANITIZE_ADDRESS__)
  const std::size_t beyond = (grid.shared_bytes + 7) / 8 * 8;
  __asan_poison_memory_region(shared_bytes() + beyond, kSharedBytes - beyond);
  const std::shared_ptr<void> unpoison(
      nullptr, [](void*) { __asan_unpoison_memory_region(shared_bytes(), kSharedBytes); });
#endif
  for (int t = 0; t < count_; ++t)
    threads_[static_cast<std::size_t>(t)] = Thread{State::ready, nullptr, Where(), 0};
  for (Warp& warp : warps_) warp.arrived = 0;
  const int warps = (count_ + kWarp - 1) / kWarp;
  for (phase_ = 0;; ++phase_) {
    const bool up = phase_ % 2 == 0;
    bool ended = true;
    for (int i = 0; i < warps; ++i) ended = run_warp(up ? i : warps - 1 - i, up) && ended;
    if (ended) break;
    pass_barrier();
  }
#if !defined(__SANITIZE_ADDRESS__)
  check_edge(grid.shared_bytes);
#endif
}

void Block::check_edge(std::size_t bytes) const {
  for (std::size_t i = bytes; i < std::min(bytes + kEdge, kSharedBytes); ++i)
    if (static_cast<unsigned char>(shared_bytes()[i]) != kPoison)
      fail(0, "or another wrote byte " + std::to_string(i) + " of " + std::to_string(bytes) +
                  " of shared memory");
}

// Lets the lanes run until they all have ended or wait at a barrier of the block. True: all ended.
bool Block::run_warp(int warp, bool up) {
  const int first = warp * kWarp, last = std::min(first + kWarp, count_);
  for (;;) {
    bool ran = false, ended = true;
    int waiting = -1;
    for (int i = first; i < last; ++i) {
      const int t = up ? i : last - 1 - (i - first);
      Thread& thread = threads_[static_cast<std::size_t>(t)];
      if (thread.state == State::ready) {
        resume(t);
        ran = true;
      }
      if (thread.state == State::in_warp) waiting = t;
      ended = ended && thread.state == State::ended;
    }
    if (ran) continue;
    if (waiting >= 0)
      fail(waiting, "waits for its warp at " +
                        place(threads_[static_cast<std::size_t>(waiting)].where) +
                        ", where not all lanes come");
    return ended;
  }
}

void Block::resume(int t) {
  Thread& thread = threads_[static_cast<std::size_t>(t)];
  if (thread.fiber == nullptr) {
    thread.fiber = fiber();
    thread.fiber->start(body_);
  }
  const unsigned index = static_cast<unsigned>(t);
  threadIdx = {index % blockDim.x, index / blockDim.x % blockDim.y,
               index / blockDim.x / blockDim.y};
  current_ = t;
  thread.fiber->resume();
  if (thread.state == State::ended) {
    idle_.push_back(thread.fiber);
    thread.fiber = nullptr;
    if (thrown_) std::rethrow_exception(thrown_);
  }
}

void Block::pass_barrier() {
  int reference = -1;
  for (int t = 0; t < count_; ++t) {
    Thread& thread = threads_[static_cast<std::size_t>(t)];
    if (thread.state == State::ended) fail(t, "has ended while others wait at a barrier");
    if (reference < 0) reference = t;
    const Where& other = threads_[static_cast<std::size_t>(reference)].where;
    if (!same(thread.where, other))
      fail(t, "waits at " + place(thread.where) + ", thread " + std::to_string(reference) + " at " +
                  place(other));
    thread.state = State::ready;
  }
}

void Block::sync_threads(const Where& where) {
  Thread& thread = threads_[static_cast<std::size_t>(current_)];
  thread.state = State::at_barrier;
  thread.where = where;
  thread.fiber->yield();
}

const std::uint64_t* Block::exchange(std::uint32_t mask, std::uint64_t value, const Where& where) {
  const int mine = current_, first = mine / kWarp * kWarp;
  Thread& thread = threads_[static_cast<std::size_t>(mine)];
  Warp& warp = warps_[static_cast<std::size_t>(mine / kWarp)];
  if (mask != 0xffffffffU || first + kWarp > count_)
    fail(mine,
         "asks at " + place(where) + " for lanes that are not there, or for less than a warp");
  auto& values = warp.values[thread.exchanges++ % 2];
  values[static_cast<std::size_t>(mine - first)] = value;
  thread.where = where;
  if (++warp.arrived < kWarp) {
    thread.state = State::in_warp;
    thread.fiber->yield();
  } else {
    warp.arrived = 0;
    for (int t = first; t < first + kWarp; ++t) {
      Thread& other = threads_[static_cast<std::size_t>(t)];
      if (!same(other.where, where))
        fail(t, "is at " + place(other.where) + ", its warp at " + place(where));
      other.state = State::ready;
    }
  }
  return values.data();
}

}  // namespace

void run_grid(const Grid& grid, const std::function<void()>& kernel) {
  block_of_this_thread.run(grid, kernel);
}
void sync_threads(const Where& where) { block_of_this_thread.sync_threads(where); }
const std::uint64_t* exchange(std::uint32_t mask, std::uint64_t value, const Where& where) {
  return block_of_this_thread.exchange(mask, value, where);
}
std::uint32_t lane() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % kWarp;
}

}  // namespace cuda_on_host
}  // namespace trainyard
