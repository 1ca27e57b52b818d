#include "simulator/workers.h"

#include <utility>

namespace trainyard {

Workers::Workers(int threads) {
  for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { serve(); });
}

Workers::~Workers() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  begin_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// A thread that wakes when all iterations are taken is not waited for.
void Workers::each(std::size_t count, const std::function<void(std::size_t)>& body) {
  if (count == 1) return body(0);  // nobody need wake for that
  {
    const std::scoped_lock lock(mutex_);
    count_ = count;
    body_ = &body;
    next_ = 0;
    ++loop_;
  }
  begin_.notify_all();
  take_iterations();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Workers::serve() {
  std::size_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    begin_.wait(lock, [&] { return stopping_ || (loop_ != seen && next_ < count_); });
    if (stopping_) return;
    seen = loop_;
    ++busy_;
    lock.unlock();
    take_iterations();
    lock.lock();
    if (--busy_ == 0) done_.notify_one();
  }
}

void Workers::take_iterations() {
  for (std::size_t i = next_++; i < count_; i = next_++) {
    try {
      (*body_)(i);
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!error_ || i < error_at_) {
        error_ = std::current_exception();
        error_at_ = i;
      }
    }
  }
}

}  // namespace trainyard
