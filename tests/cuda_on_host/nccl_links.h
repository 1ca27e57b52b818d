#pragma once
#include <nccl.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace trainyard::cuda_on_host {

// A peer is gone, or calls something else.
class LinkError : public std::runtime_error {
 public:
  LinkError(ncclResult_t result, const std::string& text)
      : std::runtime_error(text), result_(result) {}
  ncclResult_t result() const { return result_; }

 private:
  ncclResult_t result_;
};

// The communicator was aborted while something waited.
struct Aborted {};

// What all members of a call must say alike.
struct CallName {
  std::int32_t op = 0, type = 0, reduction = 0, root = 0;
  std::uint64_t count = 0, number = 0;
  bool operator==(const CallName&) const = default;
};

// A communicator: a socket to each other member, by names in the abstract namespace, so that
// members are processes or threads of one host.
class Links {
 public:
  using Part = std::span<const std::byte>;
  using Space = std::span<std::byte>;

  Links(std::string name, int rank, int size);
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  const std::string& name() const { return name_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(sockets_.size()); }

  // Blocks until all members are there. Throws Aborted, LinkError.
  void connect();
  // Sends parts[m] to and receives spaces[m] from member m, both at once. Throws as connect().
  void exchange(std::span<const Part> parts, std::span<const Space> spaces);
  // Checks that all members make the same call.
  void agree(CallName call);
  // The two ends of a transfer; the sender's ends after the receiver's has begun.
  void send(int peer, CallName call, Part message);
  void receive(int peer, CallName call, Space message);

  // One call at a time, in the order of their tickets, which are taken when calls are made.
  class Turn {
   public:
    explicit Turn(Links& links) : lock_(links.turn_) {}

   private:
    std::lock_guard<std::mutex> lock_;
  };
  std::uint64_t next_number() { return calls_++; }
  int next_split() { return splits_++; }

  void fail(ncclResult_t result, const std::string& text);
  void set_state(ncclResult_t state) { state_ = state; }
  ncclResult_t state() const { return static_cast<ncclResult_t>(state_.load()); }
  std::string problem() const;
  void abort();
  void wait_for_abort() const;

 private:
  struct End;
  int listen() const;
  int connect_to(int peer) const;
  void rest_or_throw(int milliseconds) const;
  void move(std::span<End> ends);

  std::string name_;
  int rank_;
  std::vector<int> sockets_;  // by member; -1: this one
  int abort_pipe_[2];
  std::atomic<bool> aborted_{false};
  std::atomic<int> state_{ncclInProgress};
  std::atomic<std::uint64_t> calls_{0};
  int splits_ = 0;
  std::mutex turn_;
  mutable std::mutex problem_mutex_;
  std::string problem_;
};

}  // namespace trainyard::cuda_on_host
