#include "backends/cpu/kernels/workers.h"

namespace trainyard {

KernelWorkers::KernelWorkers(int threads) {
  for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

KernelWorkers::~KernelWorkers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void KernelWorkers::take(std::unique_lock<std::mutex>& lock) {
  while (next_ < size_) {
    const std::int64_t index = next_++;
    ++running_;
    lock.unlock();
    (*body_)(index);
    lock.lock();
    --running_;
  }
}

void KernelWorkers::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    started_.wait(lock, [this] { return stop_ || next_ < size_; });
    if (stop_) return;
    take(lock);
    if (running_ == 0) ended_.notify_one();
  }
}

void KernelWorkers::run(std::int64_t n, const std::function<void(std::int64_t)>& body) {
  if (threads_.empty() || n == 1) {
    for (std::int64_t i = 0; i < n; ++i) body(i);
    return;
  }
  std::unique_lock lock(mutex_);
  body_ = &body;
  next_ = 0;
  size_ = n;
  started_.notify_all();
  take(lock);
  ended_.wait(lock, [this] { return running_ == 0; });
  next_ = size_ = 0;
}

}  // namespace trainyard
