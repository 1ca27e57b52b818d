#pragma once
#include <chrono>
#include <cstdint>
#include <span>
#include <string>

namespace trainyard {

struct RingShape {
  std::int32_t slots = 2;    // batches that may wait to be used
  std::int32_t readers = 1;  // processes that use each batch
  std::int64_t values = 0;   // int32 in a batch
};

// Batches in memory that the processes of a node share: one process fills them in order, each
// reader uses every one. The memory has no name in any file system, so nothing is left behind
// however the processes end; others open it through the creator's entry in /proc. There is no lock
// that a killed process could leave closed: only counters, and futexes to wait on them.
class BatchRing {
 public:
  // Throws std::runtime_error when the system refuses (memory, /proc, another user's process).
  static BatchRing create(const RingShape& shape);
  static BatchRing attach(const std::string& address);
  ~BatchRing();
  BatchRing(BatchRing&& other) noexcept;
  BatchRing& operator=(BatchRing&&) = delete;

  // For attach(), valid as long as the creator lives.
  const std::string& address() const { return address_; }
  const RingShape& shape() const;

  // The writer's side: space for batch `step` once all readers have left batch step - slots; empty
  // after close(). Then publish(step).
  std::span<std::int32_t> wait_free(std::int64_t step);
  void publish(std::int64_t step);
  // Every reader that waits now or later throws ConfigError with this text.
  void fail(const std::string& reason);
  void close();

  // A reader's side: batch `step` once it is there. Throws ConfigError after fail(), and
  // std::runtime_error when the writer has gone or `timeout` has passed. Then release(reader,
  // step).
  std::span<const std::int32_t> wait_filled(std::int64_t step, std::chrono::milliseconds timeout);
  void release(std::int32_t reader, std::int64_t step);

 private:
  struct Control;
  BatchRing(int fd, std::string address);
  void map(std::size_t bytes);
  std::span<std::int32_t> slot(std::int64_t step) const;

  int fd_ = -1;
  std::string address_;
  Control* control_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace trainyard
