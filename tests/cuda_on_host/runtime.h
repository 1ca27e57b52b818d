#pragma once
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda_on_host/order_log.h"
#include "tests/cuda_on_host/signal.h"

// How the stand-in for the CUDA runtime keeps devices, streams, events and graphs.
namespace trainyard::cuda_on_host {

using Work = std::function<void()>;

// For each stream of a device, how many pieces of its work are known to have ended.
using Known = std::vector<std::size_t>;

struct Device {
  std::mutex mutex;
  std::map<std::uintptr_t, std::size_t> memory;  // bytes by first address
  std::size_t used = 0;
  int streams = 0;                   // created so far
  std::vector<CUstream_st*> living;  // those not destroyed
  CUstream_st* usual = nullptr;      // the one that calls without a stream mean
  std::atomic<bool> failed{false};
  std::string problem;
  bool logs = false;
  std::vector<LoggedWork> log;

  void fail(const std::string& what);
};
Device& device(int number);
int current_device();
CUstream_st* resolve(cudaStream_t stream);

// Waits for all streams of the device.
void drain(Device& device);

// Wraps work of a stream: not done once the device has failed; fails it by throwing.
Work guarded(CUstream_st* stream, Work work);

// What a stream of a capture knows to have ended when its next operation starts: how many
// operations of each stream.
using Order = std::map<CUstream_st*, std::size_t>;

// One record of an event.
struct EventRecord {
  Signal reached;
  std::chrono::steady_clock::time_point time;

  void reach() {
    time = std::chrono::steady_clock::now();
    reached.raise(1);
  }
};

struct CapturedOp {
  enum class Kind : std::uint8_t { work, mark, await, record } kind;
  CUstream_st* stream;
  Work work;
  std::size_t mark = 0;                           // mark, await
  std::shared_ptr<EventRecord> record = nullptr;  // record
};

struct Capture {
  CUstream_st* origin = nullptr;
  cudaStreamCaptureMode mode{};
  std::vector<CapturedOp> ops;
  std::map<CUstream_st*, Order> orders;
  std::size_t marks = 0;
  bool invalid = false;

  void append(CapturedOp op) {
    ++orders[op.stream][op.stream];
    ops.push_back(std::move(op));
  }
};

// Adds a piece of work to what its stream knows, and to the device's log.
void note_work(CUstream_st& stream);
void merge(Known& into, const Known& other);

// Of the calling thread, if it captures in a mode that forbids calls which wait for the device.
bool capture_forbids();

}  // namespace trainyard::cuda_on_host

struct CUstream_st {
  int device = 0, number = 0;
  trainyard::cuda_on_host::Known known;  // after all that it was given, its own work included
  int slow_us = 0;                       // before each piece of work
  std::thread thread;
  std::shared_ptr<trainyard::cuda_on_host::Capture> capture;  // of the thread that captures

  // None: ends the stream's thread.
  void push(trainyard::cuda_on_host::Work item);
  bool idle() const { return ended.reached(pushed.count()); }
  void drain() const { ended.await(pushed.count()); }
  void run();

 private:
  struct Item {
    trainyard::cuda_on_host::Work work;
    std::unique_ptr<Item> next;
  };
  // A chain that starts with what the thread did last.
  std::unique_ptr<Item> first = std::make_unique<Item>();
  Item* last = first.get();
  std::mutex pushing;
  trainyard::cuda_on_host::Signal pushed, ended;
};

struct CUevent_st {
  bool timed = true;
  trainyard::cuda_on_host::Known known;  // of the latest record
  // The latest. An event that is recorded anew, on a stream that gets there first, does not let go
  // who waits for the record before.
  std::shared_ptr<trainyard::cuda_on_host::EventRecord> record;
  // Of the latest record, if it was captured.
  std::shared_ptr<trainyard::cuda_on_host::Capture> capture;
  trainyard::cuda_on_host::Order order;
  std::size_t mark = 0;
};

struct CUgraph_st {
  trainyard::cuda_on_host::Capture recorded;
};
