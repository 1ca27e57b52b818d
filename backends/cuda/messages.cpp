#include "backends/cuda/messages.h"

#include <array>

#include "backends/common/operands.h"
#include "backends/cuda/kernels/cuda_error.h"
#include "core/error.h"

namespace trainyard {
namespace {

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::fp16:
      return ncclFloat16;
    case DType::int32:
      return ncclInt32;
    case DType::uint8:
      return ncclUint8;
  }
  return ncclUint8;
}

std::size_t elements(const Matrix& m) {
  return bytes_of(m).size() / static_cast<std::size_t>(size_of(m.dtype));
}

}  // namespace

void Messages::alone(const Instr& instr, std::span<const Matrix> operands, cudaStream_t stream) {
  if (instr.op != Op::all_gather && instr.op != Op::reduce_scatter) return;
  const auto from = bytes_of(operands[0]), to = bytes_of(operands[1]);
  check(from.size() == to.size(), "{} of one rank from {} bytes to {}", op_name(instr.op),
        from.size(), to.size());
  if (from.data() != to.data())
    require(cudaMemcpyAsync(to.data(), from.data(), from.size(), cudaMemcpyDeviceToDevice, stream),
            "cudaMemcpyAsync");
}

void Messages::collective(const Instr& instr, std::span<const Matrix> operands) {
  cudaStream_t stream = streams_.of(instr.stream);
  if (comms_.size(instr.group) < 2) return alone(instr, operands, stream);
  ncclComm_t comm = comms_.of(instr.group, instr.stream);
  const Matrix &first = operands[0], &last = operands.back();
  const ncclDataType_t type = nccl_type(first.dtype);
  const auto op = static_cast<Reduction>(instr.what) == Reduction::max ? ncclMax : ncclSum;
  ncclResult_t result = ncclSuccess;
  switch (instr.op) {
    case Op::all_reduce:
      result = ncclAllReduce(first.data, first.data, elements(first), type, op, comm, stream);
      break;
    case Op::all_gather:
      result = ncclAllGather(first.data, last.data, elements(first), type, comm, stream);
      break;
    case Op::reduce_scatter:
      result = ncclReduceScatter(first.data, last.data, elements(last), type, op, comm, stream);
      break;
    case Op::broadcast:
      result =
          ncclBroadcast(first.data, first.data, elements(first), type, instr.peer, comm, stream);
      break;
    default:
      check(false, "the CUDA backend has no {}", op_name(instr.op));
  }
  comms_.complete(result, comm, op_name(instr.op).data());
}

ncclResult_t Messages::start(const TransferCall& call, cudaStream_t stream) {
  const Communicators::End end = comms_.end(*call.instr);
  const ncclDataType_t type = nccl_type(call.buffer.dtype);
  const std::size_t count = elements(call.buffer);
  if (call.instr->op == Op::send)
    return ncclSend(call.buffer.data, count, type, end.peer, end.comm, stream);
  return ncclRecv(call.buffer.data, count, type, end.peer, end.comm, stream);
}

void Messages::transfers(std::span<const TransferCall> calls) {
  cudaStream_t stream = streams_.of(calls[0].instr->stream);
  if (calls.size() == 1) {
    const ncclResult_t result = start(calls[0], stream);
    return comms_.complete(result, comms_.end(*calls[0].instr).comm, "a transfer");
  }
  // One group call may launch its communicators' kernels one after another, on two ranks in
  // different orders: each pair of stages has a stream of its own.
  for (const TransferCall& call : calls) {
    const Communicators::End end = comms_.end(*call.instr);
    cudaStream_t own = streams_.of_pair(end.pair);
    streams_.order(stream, own);
    comms_.complete(start(call, own), end.comm, "a transfer");
  }
  for (const TransferCall& call : calls)
    streams_.order(streams_.of_pair(comms_.end(*call.instr).pair), stream);
}

}  // namespace trainyard
