#include "backends/cuda/flight_recorder.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {

void FlightRecorder::begin(const Program& program, std::int64_t step) {
  program_ = &program;
  step_ = step;
  in_graph_ = false;
  for (Lane& lane : lanes_) {
    lane.issued.clear();
    lane.done = 0;
  }
  order_.clear();
}

void FlightRecorder::note(std::uint32_t instr, cudaEvent_t start, cudaEvent_t end) {
  lanes_[static_cast<std::size_t>(program_->code[instr].stream)].issued.push_back(
      {instr, start, end});
  order_.push_back(instr);
}

bool FlightRecorder::reached(cudaEvent_t event) {
  return event != nullptr && cudaEventQuery(event) == cudaSuccess;
}

// An event that has been reached tells of all that was issued on the stream before it.
void FlightRecorder::advance(Lane& lane) {
  std::size_t next = lane.done;
  while (next < lane.issued.size()) {
    while (next < lane.issued.size() && lane.issued[next].start == nullptr &&
           lane.issued[next].end == nullptr)
      ++next;
    if (next == lane.issued.size()) return;
    const Issued& at = lane.issued[next];
    if (reached(at.end))
      lane.done = ++next;
    else if (at.end == nullptr || reached(at.start))
      return void(lane.done = next);
    else
      return;
  }
}

std::size_t FlightRecorder::ended() {
  std::size_t sum = 0;
  for (Lane& lane : lanes_) {
    advance(lane);
    sum += lane.done;
  }
  return sum;
}

std::string FlightRecorder::positions() {
  if (program_ == nullptr) return "between steps";
  if (in_graph_) return fmt::format("in the graph of step {}", step_);
  std::string text;
  ended();
  for (const Lane& lane : lanes_) {
    if (lane.done == lane.issued.size()) continue;
    const Issued& at = lane.issued[lane.done];
    const char* const place = at.start == nullptr ? "at" : reached(at.start) ? "in" : "before";
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", place, describe(at.instr));
  }
  return text.empty() ? fmt::format("behind step {}", step_) : text;
}

std::string FlightRecorder::dump() {
  if (program_ == nullptr || in_graph_) return {};
  ended();
  std::string text;
  // Most of a step is issued long before the GPU gets there.
  constexpr std::size_t kAhead = 16;
  std::size_t frontier = order_.size();
  while (frontier > 0 && state_of(order_[frontier - 1]) != "done") --frontier;
  const std::size_t end = std::min(order_.size(), frontier + kAhead);
  const std::size_t first = end - std::min(end, kRemembered);
  for (std::size_t i = first; i < end; ++i)
    text +=
        fmt::format("rank {}: {:7} {}\n", index(rank_), state_of(order_[i]), describe(order_[i]));
  return text;
}

std::string FlightRecorder::state_of(std::uint32_t instr) const {
  const Lane& lane = lanes_[static_cast<std::size_t>(program_->code[instr].stream)];
  const auto at = std::ranges::lower_bound(lane.issued, instr, {}, &Issued::instr);
  const auto place = static_cast<std::size_t>(at - lane.issued.begin());
  if (place < lane.done) return "done";
  return place == lane.done && reached(at->start) ? "running" : "waiting";
}

std::string FlightRecorder::describe(std::uint32_t i) const {
  const Instr& instr = program_->code[i];
  std::string what{op_name(instr.op)};
  if (instr.op == Op::kernel) what = kernel_info(program_->kernels[instr.what].kind).name;
  std::string text = fmt::format("instruction {} of step {} ({} on stream {}", i, step_, what,
                                 stream_name(instr.stream));
  if (instr.pass != kNone) {
    const Pass& pass = program_->passes[instr.pass];
    text += fmt::format(", {} of micro-batch {}", pass_name(pass.kind), pass.micro_batch);
  }
  return text + ")";
}

}  // namespace trainyard
