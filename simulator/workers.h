#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace trainyard {

// A fixed set of threads for loops whose iterations do not touch each other.
class Workers {
 public:
  explicit Workers(int threads);  // at least one: the caller's own
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Calls body(0) … body(count - 1), each once, and returns when all have returned. An exception
  // of an iteration is thrown again here; of several, the lowest iteration's.
  void each(std::size_t count, const std::function<void(std::size_t)>& body);

 private:
  void serve();
  void take_iterations();

  std::mutex mutex_;
  std::condition_variable begin_, done_;
  std::size_t loop_ = 0;  // how many loops have begun
  std::size_t busy_ = 0;  // threads still in the current one
  bool stopping_ = false;
  std::size_t count_ = 0;
  const std::function<void(std::size_t)>* body_ = nullptr;
  std::atomic<std::size_t> next_ = 0;
  std::exception_ptr error_;
  std::size_t error_at_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace trainyard
