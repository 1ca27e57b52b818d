#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/program/program.h"
#include "core/types.h"

namespace trainyard {

// A thread with a queue for each stream of a rank. Streams meet through marks: mark(s, i) sets the
// mark of stream s to instruction i when all that was pushed before has ended, and await(t, s, i)
// holds stream t up until then. The first exception of a piece of work fails all streams.
class StreamThreads {
 public:
  using Work = std::function<void()>;

  // `on_failure` is called once, from the failing thread, to wake work that waits for others.
  explicit StreamThreads(std::function<void()> on_failure);
  ~StreamThreads();
  StreamThreads(const StreamThreads&) = delete;
  StreamThreads& operator=(const StreamThreads&) = delete;

  // Starts a step: all queues are empty, no mark is set.
  void begin();
  // `instr` is what the stream is said to be doing meanwhile.
  void push(Stream stream, std::uint32_t instr, Work work);
  void mark(Stream stream, std::uint32_t instr);
  void await(Stream stream, Stream other, std::uint32_t instr);

  // For the caller's own stream: blocks until the mark is there; false: the step has failed.
  bool wait_here(Stream other, std::uint32_t instr);
  void mark_here(Stream stream, std::uint32_t instr) { set_mark(stream, instr); }
  void fail(std::uint32_t instr, const std::string& problem, bool peer_gone = false);

  // Blocks until all queues are empty (true) or `timeout` has passed (false). A failed step's
  // queues run empty without work.
  bool drain(Time timeout);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // What failed first, and at which instruction.
  struct Failure {
    std::uint32_t instr = kNone;
    std::string problem;
    bool peer_gone = false;  // it is another rank's end that was noticed
  };
  Failure failure() const;
  // Per stream, the instruction it is at; kNone when idle.
  std::array<std::uint32_t, kStreams> positions() const;

 private:
  struct Item {
    std::uint32_t instr = kNone;
    Work work;
  };
  struct Queue {
    std::mutex mutex;
    std::condition_variable filled;
    std::deque<Item> items;
    bool stop = false;
    std::atomic<std::uint32_t> position{kNone};
    std::atomic<std::uint32_t> mark{0};  // one more than the instruction; kFailedMark wakes all
    std::thread thread;
  };
  static constexpr std::uint32_t kFailedMark = UINT32_MAX;

  Queue& queue(Stream stream) { return queues_[static_cast<std::size_t>(stream)]; }
  void run(Queue& queue);
  void execute(Queue& queue, Item& item);
  void set_mark(Stream stream, std::uint32_t instr);
  void wait_mark(Stream other, std::uint32_t instr);

  std::function<void()> on_failure_;
  std::array<Queue, kStreams> queues_;
  std::atomic<bool> failed_{false};
  std::atomic<std::int64_t> unfinished_{0};
  mutable std::mutex mutex_;
  std::condition_variable drained_;
  Failure failure_;
};

}  // namespace trainyard
