#pragma once
#include <nccl.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backends/common/store.h"
#include "backends/cuda/kernels/cuda_error.h"
#include "core/mesh/mesh.h"
#include "core/program/program.h"

namespace trainyard {

// A rank's NCCL communicators: one of all ranks, made through the store, and by ncclCommSplit from
// it one a group that has more than one member, a second one of the tensor ranks, and two a pair of
// neighbouring stages: NCCL runs the calls of a communicator in the order of their issue, whatever
// their streams, so streams that have calls among the same ranks have communicators of their own.
// Nothing here blocks for longer than the time-out.
class Communicators {
 public:
  Communicators(RankId rank, std::chrono::milliseconds timeout) : rank_(rank), timeout_(timeout) {}
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  // `store` may be null for a mesh of one rank. Closes what an earlier mesh had. Throws ConfigError
  // when ranks have different versions of NCCL, CudaError naming what did not come up in time.
  void connect(const Mesh& mesh, Store* store);

  std::int32_t size(Group group) const { return sizes_[at(group)]; }
  std::int32_t place(Group group) const { return places_[at(group)]; }
  // Sums of gradients over the tensor ranks, on Stream::data, go beside the layers' collectives.
  ncclComm_t of(Group group, Stream stream) const {
    return group == Group::tensor && stream == Stream::data ? tensor_gradients_
                                                            : groups_[at(group)];
  }
  // The communicator of a send or recv, and the peer's number in it.
  struct End {
    ncclComm_t comm = nullptr;
    int peer = 0;
    std::size_t pair = 0;  // below kPairs
  };
  static constexpr std::size_t kPairs = 4;
  End end(const Instr& transfer) const;

  // Throws CudaError unless `result` is success, or becomes it in time. For each call of NCCL.
  void complete(ncclResult_t result, ncclComm_t comm, const char* call) const;
  // What NCCL found wrong beside any call; empty: nothing.
  std::string problem() const;
  // Lets messages of this memory go without a copy into NCCL's own buffers, where the machine has a
  // way to. Returns why it has none; empty: it has. After connect(), until its end.
  std::string register_memory(std::span<std::byte> memory);
  // Ends all that is under way on the GPU, here at once and at the peers by their own. Nothing
  // works afterwards until connect().
  void abort();

 private:
  static constexpr std::size_t at(Group group) { return static_cast<std::size_t>(group); }
  void meet(const Mesh& mesh, Store& store);
  void split_groups(const Mesh& mesh);
  void split_pairs(const Mesh& mesh);
  ncclComm_t split(int color, int key, const std::string& name);
  void close();
  void forget();
  void deregister_memory();
  template <class F>
  void each(F f) const;

  RankId rank_;
  std::chrono::milliseconds timeout_;
  std::int32_t connections_ = 0;  // made so far
  ncclComm_t world_ = nullptr;
  std::array<ncclComm_t, kGroups> groups_{};
  ncclComm_t tensor_gradients_ = nullptr;
  // To and from the next stage, to and from the one before: activations go on, gradients back.
  std::array<ncclComm_t, kPairs> pairs_{};
  std::array<std::int32_t, kGroups> sizes_{}, places_{};
  struct Registration {
    ncclComm_t comm;
    void* handle;
  };
  std::vector<Registration> registrations_;
};

}  // namespace trainyard
