#include "simulator/simulation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "simulator/critical_path.h"
#include "simulator/execute.h"
#include "simulator/executor.h"
#include "simulator/history.h"
#include "simulator/scene.h"

namespace trainyard {
namespace {

Time last_end(const Executor& executor) {
  std::int64_t latest = 0;
  for (const auto& island : executor.islands())
    for (const Gang& gang : island->gangs())
      latest =
          std::max(latest, *std::max_element(gang.free, gang.free + kStreams * island->lanes()));
  return nanoseconds(latest);
}

// Counts over all ranks of the job, folded or not.
void count(const Scene& scene, SimulationResult& result) {
  const auto ranks = static_cast<std::uint64_t>(scene.layout.mesh.size() / scene.layout.stages);
  for (const CompiledProgram& program : scene.programs) {
    result.instructions += ranks * program.source->code.size();
    result.events += ranks * program.shared.size();
    const auto sends = std::ranges::count_if(program.transfers, &TransferEnd::sends);
    result.flows += ranks * static_cast<std::uint64_t>(sends);
    result.executed_flops += static_cast<double>(ranks) * program.flops;
  }
}

std::vector<Time> stage_busy(const Scene& scene, const Executor& executor) {
  const Layout& layout = scene.layout;
  std::vector<Time> busy(static_cast<std::size_t>(layout.stages));
  for (const auto& island : executor.islands())
    for (const Gang& gang : island->gangs()) {
      const Time all = gang.program->kernel_time * layout.lanes + nanoseconds(gang.kernel_excess);
      busy[static_cast<std::size_t>(gang.stage)] +=
          all * layout.stands_for[static_cast<std::size_t>(island->index())];
    }
  for (Time& time : busy) time = time / (layout.mesh.size() / layout.stages);
  return busy;
}

// What a kernel would not have taken on the mean GPU.
std::int64_t share_of_slowest(std::int64_t span, double slowest) {
  return std::llround(static_cast<double>(span) * (1 - 1 / slowest));
}

// The chain through the stage that bounds the step explains most. Equal stages allow several
// chains, so the busiest, the last and the first stage are tried.
void explain(const Scene& scene, const Executor& executor, History& history,
             SimulationResult& result) {
  const auto busiest = std::ranges::max_element(result.stage_busy) - result.stage_busy.begin();
  std::vector<PathSegment> path;
  std::int64_t most = -1;
  for (const std::int32_t target :
       {static_cast<std::int32_t>(busiest), scene.layout.stages - 1, 0}) {
    auto segments = critical_path(scene, executor, history, target);
    std::vector<std::int64_t> at(result.stage_busy.size());
    for (const PathSegment& segment : segments)
      at[static_cast<std::size_t>(segment.stage)] += segment.to - segment.from;
    const auto longest = std::ranges::max_element(at);
    if (*longest <= most) continue;
    most = *longest;
    result.bounding_stage = static_cast<std::int32_t>(longest - at.begin());
    path = std::move(segments);
  }
  const auto add = [&](Cause cause, std::int64_t time) {
    result.breakdown[static_cast<std::size_t>(cause)] += nanoseconds(time);
  };
  KernelTimes bounding(scene, history, result.bounding_stage);
  for (const PathSegment& segment : path) {
    const Program& program = *scene.program(segment.stage).source;
    const Cause cause = cause_of(segment, program, result.bounding_stage);
    const std::int64_t span = segment.to - segment.from - segment.excess;
    const bool kernel = cause == Cause::compute || cause == Cause::optimizer;
    // What the bounding stage computes during another's pass is no bubble.
    const std::int64_t busy = kernel                   ? span
                              : cause == Cause::bubble ? std::min(span, bounding.within(segment))
                                                       : 0;
    const std::int64_t slow = share_of_slowest(busy, scene.slowest_gpu);
    add(kernel ? cause : Cause::compute, busy - slow);
    add(cause, span - busy);
    add(Cause::straggler, segment.excess + slow);
  }
}

// Communication may have a step of its own for the rank's work.
std::uint32_t first_step(const CompiledProgram& program, std::uint32_t instr) {
  const std::uint32_t step = program.step_of[instr], before = program.previous[step];
  return before != kNone && program.instr_of[before] == instr ? before : step;
}

std::vector<TraceEvent> trace(const Scene& scene, History& history, std::vector<RankId> ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::vector<TraceEvent> events;
  for (const RankId rank : ranks) {
    const Coord coord = scene.layout.mesh.coord(rank);
    const auto island =
        scene.layout.replica_of[static_cast<std::size_t>(scene.layout.mesh.replica(coord))];
    const auto lane = scene.layout.lanes == 1 ? 0 : static_cast<std::size_t>(coord[Axis::tensor]);
    const CompiledProgram& program = scene.program(coord[Axis::pipeline]);
    const Recording& recording = history.of(island);
    const auto& lanes = recording.gangs[static_cast<std::size_t>(program.stage)];
    const auto first = static_cast<std::ptrdiff_t>(events.size());
    for (std::uint32_t i = 0; i < program.step_of.size(); ++i) {
      const std::size_t at = program.step_of[i] * recording.lanes + lane;
      const std::size_t first_at = first_step(program, i) * recording.lanes + lane;
      events.push_back({rank, i, nanoseconds(lanes.start[first_at]), nanoseconds(lanes.end[at])});
    }
    std::stable_sort(events.begin() + first, events.end(),
                     [](const TraceEvent& a, const TraceEvent& b) { return a.start < b.start; });
  }
  return events;
}

void check_books(const Scene& scene, const Executor& executor, const SimulationResult& result,
                 bool modelled) {
  for (const auto& island : executor.islands()) {
    Bytes sent, received;
    for (const Gang& gang : island->gangs()) {
      sent += gang.sent;
      received += gang.received;
    }
    check(sent == received, "island {}: {} bytes sent, {} received", island->index(), sent.value,
          received.value);
  }
  const Time parts = std::accumulate(result.breakdown.begin(), result.breakdown.end(), Time{});
  check(parts == result.iteration, "the parts of the critical path are {} ns, the whole {} ns",
        parts.value, result.iteration.value);
  if (!modelled) return;
  for (const CompiledProgram& program : scene.programs)
    check(result.iteration >= program.at_peak,
          "stage {} needs {} ns at the GPU's peak rate and took {} ns", program.stage,
          program.at_peak.value, result.iteration.value);
}

// Whether kernel times are a model's, which cannot be faster than the GPU.
bool is_modelled(const Job& job, const CostScale& scale) {
  const Measured& measured = job.measured;
  return job.cluster.gpu.measured_kernels.empty() && measured.forward_ms.empty() &&
         measured.backward_ms.empty() && measured.weight_grad_ms.empty() && scale.gemm >= 1 &&
         scale.attention >= 1 && scale.memory >= 1 && scale.optimizer >= 1;
}

}  // namespace

std::string_view cause_name(Cause cause) {
  static constexpr std::array<std::string_view, kCauses> kNames{
      "compute", "tensor_comm", "context_comm", "pipeline_comm", "data_comm",
      "bubble",  "optimizer",   "data_stall",   "straggler",     "other"};
  return kNames[static_cast<std::size_t>(cause)];
}

SimulationResult execute(const Job& job, const ProgramSet& programs,
                         const SimulationOptions& options, const Costs& costs) {
  const Scene scene(job, programs, options, costs);
  Executor executor(job, scene, costs, options.threads);
  executor.run();
  SimulationResult result;
  count(scene, result);
  if (const auto failed = executor.network_failure()) {
    result.failure = failed->message;
    result.iteration = failed->at;
    return result;
  }
  if (!executor.finished()) {
    result.stuck = stuck_report(scene, executor);
    return result;
  }
  result.iteration = last_end(executor);
  result.network = executor.network_use(result.iteration);
  result.stage_busy = stage_busy(scene, executor);
  History history(scene, executor.crossings(), executor.transfer_ends());
  if (result.iteration.value > 0) explain(scene, executor, history, result);
  check_books(scene, executor, result, is_modelled(job, options.scale));
  result.trace = trace(scene, history, options.traced);
  return result;
}

SimulationResult simulate(const Job& job, const ProgramSet& programs,
                          const SimulationOptions& options) {
  return execute(job, programs, options, ModelCosts(job));
}

}  // namespace trainyard
