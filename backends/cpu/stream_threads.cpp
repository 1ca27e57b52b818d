#include "backends/cpu/stream_threads.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "backends/common/peer_error.h"

namespace trainyard {

StreamThreads::StreamThreads(std::function<void()> on_failure)
    : on_failure_(std::move(on_failure)) {}

StreamThreads::~StreamThreads() {
  for (Queue& q : queues_) {
    {
      const std::lock_guard lock(q.mutex);
      q.stop = true;
    }
    q.filled.notify_one();
  }
  for (Queue& q : queues_)
    if (q.thread.joinable()) q.thread.join();
}

void StreamThreads::begin() {
  for (Queue& q : queues_) q.mark.store(0, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_release);
  failure_ = {};
}

void StreamThreads::push(Stream stream, std::uint32_t instr, Work work) {
  Queue& q = queue(stream);
  unfinished_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard lock(q.mutex);
    q.items.push_back({instr, std::move(work)});
  }
  if (!q.thread.joinable())
    q.thread = std::thread([this, &q] { run(q); });
  else
    q.filled.notify_one();
}

void StreamThreads::mark(Stream stream, std::uint32_t instr) {
  push(stream, kNone, [this, stream, instr] { set_mark(stream, instr); });
}

void StreamThreads::await(Stream stream, Stream other, std::uint32_t instr) {
  push(stream, kNone, [this, other, instr] { wait_mark(other, instr); });
}

bool StreamThreads::wait_here(Stream other, std::uint32_t instr) {
  wait_mark(other, instr);
  return !failed();
}

void StreamThreads::set_mark(Stream stream, std::uint32_t instr) {
  std::atomic<std::uint32_t>& mark = queue(stream).mark;
  std::uint32_t old = mark.load(std::memory_order_relaxed);
  while (old != kFailedMark &&
         !mark.compare_exchange_weak(old, instr + 1, std::memory_order_release)) {
  }
  mark.notify_all();
}

// Looks for a moment before it sleeps: what is waited for has often just ended, and waking a thread
// takes about as long.
void StreamThreads::wait_mark(Stream other, std::uint32_t instr) {
  constexpr std::chrono::microseconds kMoment{5};
  std::atomic<std::uint32_t>& mark = queue(other).mark;
  std::uint32_t now = mark.load(std::memory_order_acquire);
  if (now > instr) return;
  const auto until = std::chrono::steady_clock::now() + kMoment;
  while (now <= instr && std::chrono::steady_clock::now() < until)
    now = mark.load(std::memory_order_acquire);
  for (; now <= instr; now = mark.load(std::memory_order_acquire))
    mark.wait(now, std::memory_order_acquire);
}

void StreamThreads::fail(std::uint32_t instr, const std::string& problem, bool peer_gone) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_.load(std::memory_order_relaxed)) return;
    failure_ = {instr, problem, peer_gone};
    failed_.store(true, std::memory_order_release);
  }
  for (Queue& q : queues_) {
    q.mark.store(kFailedMark, std::memory_order_release);
    q.mark.notify_all();
  }
  on_failure_();
}

bool StreamThreads::drain(Time timeout) {
  std::unique_lock lock(mutex_);
  const auto empty = [this] { return unfinished_.load(std::memory_order_acquire) == 0; };
  if (timeout == kNever) return drained_.wait(lock, empty), true;
  return drained_.wait_for(lock, std::chrono::nanoseconds(timeout.value), empty);
}

StreamThreads::Failure StreamThreads::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::array<std::uint32_t, kStreams> StreamThreads::positions() const {
  std::array<std::uint32_t, kStreams> out{};
  std::ranges::transform(queues_, out.begin(),
                         [](const Queue& q) { return q.position.load(std::memory_order_relaxed); });
  return out;
}

void StreamThreads::run(Queue& q) {
  while (true) {
    Item item;
    {
      std::unique_lock lock(q.mutex);
      q.filled.wait(lock, [&] { return q.stop || !q.items.empty(); });
      if (q.items.empty()) return;
      item = std::move(q.items.front());
      q.items.pop_front();
    }
    if (!failed()) execute(q, item);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      const std::lock_guard lock(mutex_);
      drained_.notify_all();
    }
  }
}

void StreamThreads::execute(Queue& q, Item& item) {
  if (item.instr != kNone) q.position.store(item.instr, std::memory_order_relaxed);
  try {
    item.work();
  } catch (const PeerGone& error) {
    fail(item.instr, error.what(), true);
  } catch (const std::exception& error) {
    fail(item.instr, error.what());
  }
  if (item.instr != kNone) q.position.store(kNone, std::memory_order_relaxed);
}

}  // namespace trainyard
