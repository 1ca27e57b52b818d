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
  for (const Lane& lane : lanes_)
    if (lane.done < lane.issued.size())
      text +=
          fmt::format("{}in {}", text.empty() ? "" : "; ", describe(lane.issued[lane.done].instr));
  return text.empty() ? fmt::format("behind step {}", step_) : text;
}

std::string FlightRecorder::dump() {
  if (program_ == nullptr || in_graph_) return {};
  ended();
  std::string text;
  const std::size_t first = order_.size() - std::min(order_.size(), kRemembered);
  for (std::size_t i = first; i < order_.size(); ++i) {
    const Lane& lane = lanes_[static_cast<std::size_t>(program_->code[order_[i]].stream)];
    const auto at = std::ranges::find(lane.issued, order_[i], &Issued::instr);
    const auto place = static_cast<std::size_t>(at - lane.issued.begin());
    const char* const state = place < lane.done                          ? "done"
                              : place == lane.done && reached(at->start) ? "running"
                                                                         : "waiting";
    text += fmt::format("rank {}: {:7} {}\n", index(rank_), state, describe(order_[i]));
  }
  return text;
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
