#include "backends/cuda/step_exchange.h"

#include <cmath>
#include <cstring>

#include "backends/cuda/kernels/cuda_error.h"
#include "backends/cuda/kernels/kernels.h"
#include "core/error.h"
#include "core/program/accesses.h"

namespace trainyard {
namespace {

bool loads_tokens(const Instr& instr) {
  return instr.op == Op::host && static_cast<HostWork>(instr.what) == HostWork::load_batch;
}

bool reads_scalar(const Instr& instr) {
  return instr.op == Op::host && static_cast<HostWork>(instr.what) == HostWork::read_scalar;
}

void copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream, cudaMemcpyKind kind) {
  require(cudaMemcpyAsync(to, from, bytes, kind, stream), "cudaMemcpyAsync");
}

}  // namespace

StepExchange::StepExchange() : scalars_(sizeof(StepScalars)), pinned_(sizeof(Pinned)) {
  new (pinned_.as<void>()) Pinned();
}

void StepExchange::use(std::uint64_t number, const Program& program, const ProgramMemory& memory) {
  loss_ = nullptr;
  reads_norm_ = false;
  for (std::uint32_t b = 0; b < program.buffers.size(); ++b)
    if (program.buffer_types[program.buffers[b].type].name == "loss") loss_ = memory.buffer(b).data;
  const bool known = stagings_.contains(number);
  std::optional<Staging>& staging = stagings_[number];
  staging_ = &staging;
  for (const Instr& instr : program.code) {
    if (reads_scalar(instr)) reads_norm_ = true;
    if (known || !loads_tokens(instr)) continue;
    check(!staging.has_value(), "a program loads tokens twice");
    staging.emplace(operands_of(program, instr)[0].buffer,
                    PinnedBytes(bytes_of(memory.operand(instr, 0)).size()));
  }
}

void StepExchange::stage(const StepInputs& inputs, const StepScalars& scalars) {
  pinned().scalars_in = scalars;
  if (!staging_->has_value()) return;
  check(inputs.feed != nullptr, "the program loads tokens, but the step has no feed");
  const auto rows = std::as_bytes(inputs.feed->batch(inputs.step));
  const PinnedBytes& to = (*staging_)->tokens;
  check(rows.size() == to.size(), "a batch of {} bytes for a buffer of {}", rows.size(), to.size());
  std::memcpy(to.as<std::byte>(), rows.data(), rows.size());
}

void StepExchange::enqueue_inputs(cudaStream_t stream) const {
  copy(scalars_.data(), &pinned().scalars_in, sizeof(StepScalars), stream, cudaMemcpyHostToDevice);
}

void StepExchange::enqueue_results(cudaStream_t stream) const {
  auto& results = *pinned_.as<Pinned>();
  copy(&results.scalars_out, scalars_.data(), sizeof(StepScalars), stream, cudaMemcpyDeviceToHost);
  if (loss_ != nullptr)
    copy(results.loss, loss_, sizeof results.loss, stream, cudaMemcpyDeviceToHost);
}

void StepExchange::enqueue_copy(const Instr& instr, const Program& program,
                                const ProgramMemory& memory, cudaStream_t stream) const {
  const auto from = bytes_of(memory.operand(instr, 0)), to = bytes_of(memory.operand(instr, 1));
  check(from.size() == to.size(), "a copy of {} bytes to {}", from.size(), to.size());
  const bool staged =
      staging_->has_value() && operands_of(program, instr)[0].buffer == (*staging_)->buffer;
  if (staged)
    copy(to.data(), (*staging_)->tokens.as<void>(), to.size(), stream, cudaMemcpyHostToDevice);
  else
    copy(to.data(), from.data(), to.size(), stream, cudaMemcpyDeviceToDevice);
}

void StepExchange::enqueue_norm(const Matrix& norm, cudaStream_t stream) {
  check_overflow(norm, scalars(), stream);
  copy(pinned().norm, norm.data, sizeof pinned().norm, stream, cudaMemcpyDeviceToHost);
}

void StepExchange::collect(const StepInputs& inputs, StepReport& report) const {
  const Pinned& got = pinned();
  report.skipped = got.scalars_out.skip != 0;
  if (reads_norm_)
    report.gradient_norm = std::sqrt(static_cast<double>(got.norm[0])) / inputs.loss_scale;
  if (loss_ == nullptr) return;
  report.targets = std::llround(got.loss[1]);
  report.loss = report.targets > 0 ? static_cast<double>(got.loss[0]) / got.loss[1] : 0;
}

}  // namespace trainyard
