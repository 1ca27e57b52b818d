#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "backends/common/kernel_call.h"
#include "backends/cuda/communicators.h"
#include "backends/cuda/gpu_streams.h"

namespace trainyard {

// A send or recv of a program with its buffer.
struct TransferCall {
  const Instr* instr;
  Matrix buffer;
};

// Puts the collectives and transfers of a program on streams, by NCCL.
class Messages {
 public:
  Messages(Communicators& comms, GpuStreams& streams) : comms_(comms), streams_(streams) {}

  // Nothing is done for a group of one beyond a copy where the result lies elsewhere.
  void collective(const Instr& instr, std::span<const Matrix> operands);
  // Transfers that start and end together, all of one stream.
  void transfers(std::span<const TransferCall> calls);

 private:
  void alone(const Instr& instr, std::span<const Matrix> operands, cudaStream_t stream);
  ncclResult_t start(const TransferCall& call, cudaStream_t stream);

  Communicators& comms_;
  GpuStreams& streams_;
};

}  // namespace trainyard
