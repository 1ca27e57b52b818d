#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace trainyard {

// Threads that share loops with the thread that calls them.
class KernelWorkers {
 public:
  // `threads` with the caller, so 1 starts none.
  explicit KernelWorkers(int threads);
  ~KernelWorkers();
  KernelWorkers(const KernelWorkers&) = delete;
  KernelWorkers& operator=(const KernelWorkers&) = delete;

  int threads() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls body(i) once for each i in [0, n), in any order and on any thread; returns when all have
  // returned. Bodies do not throw. One caller at a time.
  void run(std::int64_t n, const std::function<void(std::int64_t)>& body);

 private:
  void work();
  // Takes indices until none is left; the lock is held on entry and on return.
  void take(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable started_, ended_;
  const std::function<void(std::int64_t)>* body_ = nullptr;
  std::int64_t next_ = 0, size_ = 0, running_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace trainyard
