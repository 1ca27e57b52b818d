#pragma once
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda_on_host/order_log.h"

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

struct CapturedOp {
  enum class Kind : std::uint8_t { work, mark, await, record } kind;
  CUstream_st* stream;
  Work work;
  std::size_t mark = 0;         // mark, await
  cudaEvent_t event = nullptr;  // record
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
  std::mutex mutex;
  std::condition_variable filled, drained;
  std::deque<trainyard::cuda_on_host::Work> items;
  bool busy = false, stop = false;
  std::thread thread;
  std::shared_ptr<trainyard::cuda_on_host::Capture> capture;  // of the thread that captures

  void push(trainyard::cuda_on_host::Work item);
  bool idle();
  void drain();
  void run();
  void delay() const;  // if this is the machine's slow stream
};

struct CUevent_st {
  bool timed = true;
  trainyard::cuda_on_host::Known known;  // of the latest record
  std::mutex mutex;
  std::condition_variable reaching;
  std::uint64_t recorded = 0, reached = 0;  // latest
  // Records that streams have yet to come to. An event that is recorded anew, on a stream that gets
  // there first, does not let go who waits for the record before.
  std::set<std::uint64_t> under_way;
  std::chrono::steady_clock::time_point time;
  // Of the latest record, if it was captured.
  std::shared_ptr<trainyard::cuda_on_host::Capture> capture;
  trainyard::cuda_on_host::Order order;
  std::size_t mark = 0;

  void reach(std::uint64_t ticket);
  void await(std::uint64_t ticket);
};

struct CUgraph_st {
  trainyard::cuda_on_host::Capture recorded;
};
