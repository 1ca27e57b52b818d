#include "backends/cpu/cpu_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/transfers.h"
#include "core/error.h"
#include "core/program/accesses.h"

namespace trainyard {

CpuDevice::CpuDevice(const Job& job, RankId rank, Transport& transport, std::span<std::byte> arena,
                     Workers* workers)
    : arena_(arena),
      rank_(rank),
      contexts_(job, rank),
      workers_(workers),
      transport_(transport),
      streams_([&transport] { transport.close(); }) {
  for (int s = 0; s < kStreams; ++s)
    collectives_.emplace_back(transport, static_cast<std::uint8_t>(s));
}

Time CpuDevice::now() const {
  return nanoseconds(std::chrono::duration_cast<std::chrono::nanoseconds>(
                         std::chrono::steady_clock::now().time_since_epoch())
                         .count());
}

void CpuDevice::begin(const Program& program, const StepInputs& inputs) {
  program_ = &program;  // perhaps another one than before at the same address
  memory_.emplace(program, arena_);
  loss_ = find_loss();
  inputs_ = inputs;
  contexts_.begin(program, inputs_);
  norm_known_ = false;
  trace_.assign(inputs.traced ? program.code.size() : 0, {});
  streams_.begin();
  started_ = now();
  try {
    open_links();
    stage_first_batch();
  } catch (const PeerGone& error) {
    streams_.fail(kNone, error.what(), true);
  } catch (const std::exception& error) {
    streams_.fail(kNone, error.what());
  }
}

template <class Work>
void CpuDevice::timed(std::uint32_t first, std::uint32_t count, Work&& work) {
  if (trace_.empty()) return work();
  const Time start = now();
  work();
  const Time end = now();
  for (std::uint32_t i = first; i < first + count; ++i) trace_[i] = {rank_, i, start, end};
}

template <class Work>
void CpuDevice::push(std::uint32_t first, std::uint32_t count, Work work) {
  streams_.push(at(first).stream, first,
                [this, first, count, work = std::move(work)] { timed(first, count, work); });
}

void CpuDevice::kernel(std::uint32_t i) {
  push(i, 1, [this, i] {
    const Instr& instr = at(i);
    run_kernel(program_->kernels[instr.what], memory_->operands(instr), contexts_.of(instr),
               workers_);
  });
}

void CpuDevice::collective(std::uint32_t i) {
  push(i, 1, [this, i] {
    CallHeader call;
    call.step = inputs_.step;
    call.instr = i;
    collectives(at(i).stream).run(at(i), memory_->operands(at(i)), call);
  });
}

void CpuDevice::transfers(std::uint32_t first, std::uint32_t count) {
  push(first, count, [this, first, count] {
    std::vector<TransferEnd> ends;
    for (std::uint32_t i = first; i < first + count; ++i) {
      CallHeader call;
      call.step = inputs_.step;
      call.instr = i;
      ends.push_back({&at(i), memory_->operand(at(i), 0), call});
    }
    transfer(transport_, ends);
  });
}

void CpuDevice::copy(std::uint32_t i) {
  push(i, 1, [this, i] {
    const auto from = bytes_of(memory_->operand(at(i), 0)),
               to = bytes_of(memory_->operand(at(i), 1));
    check(from.size() == to.size(), "a copy of {} bytes to {}", from.size(), to.size());
    std::memcpy(to.data(), from.data(), from.size());
  });
}

void CpuDevice::host(std::uint32_t i) {
  push(i, 1, [this, i] { do_host_work(i); });
}

bool CpuDevice::host_work(std::uint32_t i) {
  if (streams_.failed()) return false;
  try {
    timed(i, 1, [&] { do_host_work(i); });
  } catch (const std::exception& error) {
    streams_.fail(i, error.what());
  }
  return !streams_.failed();
}

void CpuDevice::do_host_work(std::uint32_t i) {
  switch (static_cast<HostWork>(at(i).what)) {
    case HostWork::load_batch:  // beside the step: the next one's
      return stage(at(i), inputs_.step + (at(i).stream == Stream::host ? 0 : 1));
    case HostWork::read_scalar:
      return read_norm(at(i));
    case HostWork::garbage_collection:
      return;  // nothing here is collected
  }
}

void CpuDevice::stage(const Instr& load, std::int64_t step) {
  check(inputs_.feed != nullptr, "the program loads tokens, but the step has no feed");
  const auto rows = std::as_bytes(inputs_.feed->batch(step));
  const auto to = bytes_of(memory_->operand(load, 0));
  check(rows.size() == to.size(), "a batch of {} bytes for a buffer of {}", rows.size(), to.size());
  std::memcpy(to.data(), rows.data(), rows.size());
  staged_step_ = step;
  staged_feed_ = inputs_.feed;
}

// Those of collectives and transfers. All ranks begin programs of the same kind at the same time.
void CpuDevice::open_links() {
  std::vector<Link> links;
  std::array<bool, kGroups * kStreams> seen{};
  for (const Instr& instr : program_->code) {
    if (instr.op == Op::send || instr.op == Op::recv) {
      const Link link = transfer_link(transport_, instr);
      if (std::ranges::find(links, link) == links.end()) links.push_back(link);
    } else if (instr.op >= Op::all_gather && instr.op <= Op::broadcast) {
      const auto stream = static_cast<std::uint8_t>(instr.stream);
      bool& known = seen[static_cast<std::size_t>(instr.group) * kStreams + stream];
      if (!std::exchange(known, true))
        std::ranges::copy(transport_.links(instr.group, stream), std::back_inserter(links));
    }
  }
  transport_.open(links);
}

// A loader that works ahead has not run before the first step, nor before one that is repeated.
void CpuDevice::stage_first_batch() {
  for (const Instr& instr : program_->code) {
    if (instr.op != Op::host || static_cast<HostWork>(instr.what) != HostWork::load_batch) continue;
    const bool staged = staged_step_ == inputs_.step && staged_feed_ == inputs_.feed;
    if (instr.stream != Stream::host && !staged) stage(instr, inputs_.step);
    return;
  }
}

void CpuDevice::read_norm(const Instr& instr) {
  const auto* const norm = static_cast<const float*>(memory_->operand(instr, 0).data);
  gradient_norm_ = std::sqrt(static_cast<double>(norm[0])) / inputs_.loss_scale;
  norm_known_ = true;
  if (norm[1] > 0 || !std::isfinite(gradient_norm_)) contexts_.skip_update();
}

void CpuDevice::record(std::uint32_t i) {
  if (at(i).stream == Stream::host)
    streams_.mark_here(Stream::host, i);
  else
    streams_.mark(at(i).stream, i);
}

void CpuDevice::wait_for(Stream stream, std::uint32_t i) {
  if (at(i).stream == stream) return;
  if (stream == Stream::host)
    streams_.wait_here(at(i).stream, i);
  else
    streams_.await(stream, at(i).stream, i);
}

StepReport CpuDevice::finish(Time deadline) {
  const Time left = deadline == kNever ? kNever : deadline - now();
  if (!streams_.drain(left)) {
    const std::string where = waiting();
    streams_.fail(kNone, "");
    streams_.drain(kNever);
    StepReport late;
    late.outcome = Outcome::timeout;
    late.elapsed = now() - started_;
    late.message =
        fmt::format("rank {}: the step had not ended at the deadline; {}", index(rank_), where);
    return late;
  }
  return report();
}

StepReport CpuDevice::report() {
  StepReport out;
  out.elapsed = now() - started_;
  if (streams_.failed()) {
    const auto [instr, problem, peer_gone] = streams_.failure();
    out.outcome = peer_gone ? Outcome::peer_gone : Outcome::fault;
    out.message = instr == kNone
                      ? fmt::format("rank {}: {}", index(rank_), problem)
                      : fmt::format("rank {}, {}: {}", index(rank_), describe(instr), problem);
    return out;
  }
  std::erase_if(trace_, [](const TraceEvent& event) { return event.end == Time{}; });  // joins
  out.trace = std::move(trace_);
  if (norm_known_) out.gradient_norm = gradient_norm_;
  out.skipped = contexts_.skipped();
  if (loss_ != nullptr) {
    out.targets = std::llround(loss_[1]);
    out.loss = out.targets > 0 ? static_cast<double>(loss_[0]) / loss_[1] : 0;
  }
  return out;
}

const float* CpuDevice::find_loss() const {
  for (std::uint32_t b = 0; b < program_->buffers.size(); ++b)
    if (program_->buffer_types[program_->buffers[b].type].name == "loss")
      return static_cast<const float*>(memory_->buffer(b).data);
  return nullptr;
}

std::string CpuDevice::describe(std::uint32_t i) const {
  const Instr& instr = at(i);
  std::string what{op_name(instr.op)};
  if (instr.op == Op::kernel) what = kernel_info(program_->kernels[instr.what].kind).name;
  std::string text = fmt::format("instruction {} of step {} ({} on stream {}", i, inputs_.step,
                                 what, stream_name(instr.stream));
  if (instr.pass != kNone) {
    const Pass& pass = program_->passes[instr.pass];
    text += fmt::format(", {} of micro-batch {}", pass_name(pass.kind), pass.micro_batch);
  }
  return text + ")";
}

std::string CpuDevice::waiting() const {
  std::string text;
  const auto positions = streams_.positions();
  for (const std::uint32_t i : positions)
    if (i != kNone) text += fmt::format("{}in {}", text.empty() ? "" : "; ", describe(i));
  return text.empty() ? "no instruction is running" : text;
}

}  // namespace trainyard
