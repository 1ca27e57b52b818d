#include "backends/sim/sim_backend.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.h"

namespace trainyard {

SimBackend::SimBackend(Job job, SimulationOptions options)
    : job_(std::move(job)), options_(std::move(options)), mesh_(job_.mesh()) {
  for (std::int32_t r = 0; r < mesh_.size(); ++r) ranks_.push_back(RankId(r));
  submitted_.resize(ranks_.size());
}

void SimBackend::connect(const Mesh& mesh) {
  const bool own = mesh.order() == mesh_.order() &&
                   mesh.coord(RankId(mesh.size() - 1)) == mesh_.coord(RankId(mesh_.size() - 1));
  check(own, "the simulated cluster runs the job's own mesh only");
}

void SimBackend::submit(RankId rank, const Program& program, const StepInputs& inputs) {
  submitted_.at(static_cast<std::size_t>(index(rank))) = &program;
  if (inputs.traced) traced_.push_back(rank);
}

StepReport SimBackend::wait(Time deadline) {
  ProgramSet programs;
  programs.by_stage.resize(static_cast<std::size_t>(mesh_.size(Axis::pipeline)));
  for (const RankId rank : ranks_) {
    const Program* const program = submitted_[static_cast<std::size_t>(index(rank))];
    check(program != nullptr, "rank {} has nothing to run", index(rank));
    auto& stage = programs.by_stage[static_cast<std::size_t>(mesh_.coord(rank)[Axis::pipeline])];
    check(stage == nullptr || stage.get() == program, "rank {} runs another program than its stage",
          index(rank));
    stage = {std::shared_ptr<const void>{}, program};  // owned by the caller until wait() returns
  }
  std::ranges::fill(submitted_, nullptr);
  SimulationOptions options = options_;
  std::ranges::move(traced_, std::back_inserter(options.traced));
  traced_.clear();
  last_ = simulate(job_, programs, options);

  StepReport report;
  if (!last_.stuck.empty()) {
    report.outcome = Outcome::fault;
    report.message = last_.stuck;
  } else if (!last_.failure.empty()) {
    report.outcome = Outcome::fault;
    report.message = last_.failure;
    report.elapsed = last_.iteration;
  } else if (last_.iteration > deadline - now_) {
    report.outcome = Outcome::timeout;
    report.elapsed = deadline - now_;
    report.message = "the step had not ended at the deadline";
  } else {
    report.elapsed = last_.iteration;
    report.trace = last_.trace;
  }
  now_ += report.elapsed;
  return report;
}

}  // namespace trainyard
