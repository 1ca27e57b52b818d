#include "backends/cuda/cuda_device.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "backends/cuda/kernels/cuda_error.h"
#include "backends/cuda/kernels/kernels.h"
#include "backends/cuda/named_range.h"
#include "core/error.h"
#include "core/program/text.h"

namespace trainyard {
namespace {

bool is_message(const Instr& instr) {
  switch (instr.op) {
    case Op::kernel:
    case Op::copy:
    case Op::host:
    case Op::join:
      return false;
    default:
      return true;
  }
}

// Tells programs apart by what they are: another one may come to lie where one was.
std::uint64_t identity(const Program& program) {
  ProgramSet alone;
  alone.by_stage.emplace_back(std::shared_ptr<const Program>(), &program);
  return program_hash(alone);
}

}  // namespace

CudaDevice::CudaDevice(const Job& job, const Setting& setting, Communicators& comms,
                       std::span<std::byte> arena)
    : setting_(setting),
      contexts_(job, setting.rank),
      comms_(comms),
      arena_(arena),
      messages_(comms, streams_),
      recorder_(setting.rank),
      attention_(setting.attention) {}

Time CudaDevice::now() {
  return nanoseconds(std::chrono::duration_cast<std::chrono::nanoseconds>(
                         std::chrono::steady_clock::now().time_since_epoch())
                         .count());
}

// All that a step needs is there before its first one; nothing is allocated later.
CudaDevice::Loaded& CudaDevice::load(const Program& program) {
  const auto [entry, is_new] =
      loaded_.try_emplace(identity_, Loaded{ProgramMemory(program, arena_), {}, {}, {}, {}, 0});
  Loaded& loaded = entry->second;
  if (!is_new) return loaded;
  for (std::uint32_t i = 0; i < program.code.size(); ++i) {
    const Instr& instr = program.code[i];
    loaded.names.push_back(fmt::format("{} {}", i, what_text(program, instr)));
    for (const std::uint32_t wait : instr.waits)
      if (wait != kNone) loaded.ends.try_emplace(wait);
    if (is_message(instr)) {
      loaded.starts.try_emplace(i);
      loaded.ends.try_emplace(i);
    }
    if (instr.op != Op::kernel) continue;
    auto& state = loaded.states[instr.stream];
    if (state == nullptr)
      state = std::make_unique<CudaKernelState>(exchange_.scalars(), attention_);
    state->prepare(program.kernels[instr.what], contexts_.of(instr));
  }
  for (const std::string& note : attention_.take_notes())
    if (index(setting_.rank) == 0) fmt::print(stderr, "{}\n", note);
  return loaded;
}

template <class Work>
void CudaDevice::guard(Work&& work) {
  if (!problem_.empty()) return;
  try {
    work();
  } catch (const std::exception& error) {
    problem_ = error.what();
  }
}

void CudaDevice::begin(const Program& program, const StepInputs& inputs) {
  program_ = &program;
  identity_ = identity(program);
  inputs_ = inputs;
  problem_.clear();
  fenced_.fill(false);
  contexts_.begin(program, inputs);
  recorder_.begin(program, inputs.step);
  guard([&] {
    now_ = &load(program);
    if (inputs.traced) times_.emplace(program.code.size());
  });
  started_ = now();
  guard([&] {
    exchange_.use(identity_, program, now_->memory);
    exchange_.stage(inputs, step_scalars(contexts_.scalars()));
    start_step();
  });
}

// The first step of a program is never captured: libraries allocate when they are first called.
void CudaDevice::start_step() {
  const bool first = now_->steps++ == 0;
  replays_ = setting_.graphs && !first && !inputs_.traced && graphs_.has(identity_);
  if (setting_.graphs && !first && !inputs_.traced) recorder_.in_graph();
  if (replays_) return;
  if (setting_.graphs && !first && !inputs_.traced) graphs_.begin_capture(streams_.origin());
  exchange_.enqueue_inputs(streams_.origin());
  if (times_) times_->begin(streams_.origin(), started_);
  streams_.fork();
}

void CudaDevice::end_step() {
  if (!replays_) {
    streams_.join();
    exchange_.enqueue_results(streams_.origin());
  }
  if (graphs_.capturing()) {
    graphs_.end_capture(identity_, streams_.origin());
    replays_ = true;
  }
  if (replays_) graphs_.launch(identity_, streams_.origin());
}

void CudaDevice::pass_fence(Stream stream) {
  bool& fenced = fenced_[static_cast<std::size_t>(stream)];
  if (fenced)
    require(cudaStreamWaitEvent(streams_.of(stream), fence_.get(), 0), "cudaStreamWaitEvent");
  fenced = false;
}

template <class Work>
void CudaDevice::issue(std::uint32_t first, std::uint32_t count, Work&& work) {
  if (replays_) return;
  guard([&] {
    const NamedRange range(now_->names[first]);
    pass_fence(at(first).stream);
    cudaStream_t stream = stream_of(first);
    const bool message = is_message(at(first)) && !graphs_.capturing();
    if (times_) times_->start(stream);
    if (message) require(cudaEventRecord(now_->starts.at(first).get(), stream), "cudaEventRecord");
    work();
    if (message)
      for (std::uint32_t i = first; i < first + count; ++i)
        require(cudaEventRecord(now_->ends.at(i).get(), stream), "cudaEventRecord");
    if (times_) times_->end(stream, first, count);
  });
  if (!problem_.empty() || graphs_.capturing()) return;
  const auto start = now_->starts.find(first);
  for (std::uint32_t i = first; i < first + count; ++i) {
    const auto end = now_->ends.find(i);
    recorder_.note(i, start == now_->starts.end() ? nullptr : start->second.get(),
                   end == now_->ends.end() ? nullptr : end->second.get());
  }
}

void CudaDevice::kernel(std::uint32_t i) {
  issue(i, 1, [&] {
    const Instr& instr = at(i);
    launch_kernel(program_->kernels[instr.what], now_->memory.operands(instr), contexts_.of(instr),
                  *now_->states.at(instr.stream), stream_of(i));
  });
}

void CudaDevice::collective(std::uint32_t i) {
  issue(i, 1, [&] { messages_.collective(at(i), now_->memory.operands(at(i))); });
}

void CudaDevice::transfers(std::uint32_t first, std::uint32_t count) {
  issue(first, count, [&] {
    std::vector<TransferCall> calls;
    for (std::uint32_t i = first; i < first + count; ++i)
      calls.push_back({&at(i), now_->memory.operand(at(i), 0)});
    messages_.transfers(calls);
  });
}

void CudaDevice::copy(std::uint32_t i) {
  issue(i, 1, [&] { exchange_.enqueue_copy(at(i), *program_, now_->memory, stream_of(i)); });
}

void CudaDevice::host(std::uint32_t i) {
  issue(i, 1, [&] { do_host_work(i); });
}

bool CudaDevice::host_work(std::uint32_t i) {
  issue(i, 1, [&] {
    do_host_work(i);
    require(cudaEventRecord(fence_.get(), stream_of(i)), "cudaEventRecord");
    fenced_.fill(true);
    fenced_[static_cast<std::size_t>(Stream::host)] = false;
  });
  return problem_.empty();
}

void CudaDevice::do_host_work(std::uint32_t i) {
  switch (static_cast<HostWork>(at(i).what)) {
    case HostWork::load_batch:  // done when the step began: the reader works ahead of it
    case HostWork::garbage_collection:
      return;
    case HostWork::read_scalar:
      return exchange_.enqueue_norm(now_->memory.operand(at(i), 0), stream_of(i));
  }
}

// Messages have recorded their own.
void CudaDevice::record(std::uint32_t i) {
  if (replays_ || (is_message(at(i)) && !graphs_.capturing())) return;
  guard([&] { require(cudaEventRecord(now_->ends.at(i).get(), stream_of(i)), "cudaEventRecord"); });
}

void CudaDevice::wait_for(Stream stream, std::uint32_t i) {
  if (replays_ || at(i).stream == stream) return;
  guard([&] {
    require(cudaStreamWaitEvent(streams_.of(stream), now_->ends.at(i).get(), 0),
            "cudaStreamWaitEvent");
  });
}

std::string CudaDevice::wait_for_origin(Time deadline, bool& late) {
  require(cudaEventRecord(last_.get(), streams_.origin()), "cudaEventRecord");
  std::size_t ended = 0;
  Time last_progress = now();
  std::chrono::microseconds pause(20);
  for (;;) {
    const cudaError_t state = cudaEventQuery(last_.get());
    if (state == cudaSuccess) return {};
    if (state != cudaErrorNotReady)
      return fmt::format("the GPU failed: {}", cudaGetErrorString(state));
    if (std::string problem = comms_.problem(); !problem.empty()) return problem;
    const std::size_t known = recorder_.ended();
    const Time time = now();
    if (known != ended) last_progress = time;
    ended = known;
    late = time >= deadline;
    if (late) return "the step had not ended at the deadline";
    late = time - last_progress > nanoseconds(std::chrono::nanoseconds(setting_.timeout).count());
    if (late)
      return fmt::format("nothing went on for {:g} s",
                         std::chrono::duration<double>(setting_.timeout).count());
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(500));
  }
}

StepReport CudaDevice::finish(Time deadline) {
  bool late = false;
  guard([&] { end_step(); });
  guard([&] { problem_ = wait_for_origin(deadline, late); });
  if (!problem_.empty()) return failed(late ? Outcome::timeout : Outcome::fault, problem_);
  StepReport report;
  report.elapsed = now() - started_;
  exchange_.collect(inputs_, report);
  if (times_) report.trace = times_->read(setting_.rank);
  times_.reset();
  return report;
}

StepReport CudaDevice::failed(Outcome outcome, const std::string& problem) {
  graphs_.drop_capture(streams_.origin());
  StepReport report;
  report.outcome = outcome;
  report.elapsed = now() - started_;
  report.message =
      fmt::format("rank {}: {}; {}", index(setting_.rank), problem, recorder_.positions());
  times_.reset();
  return report;
}

}  // namespace trainyard
