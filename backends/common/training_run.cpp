#include "backends/common/training_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "backends/common/batch_feeds.h"
#include "backends/common/patience.h"
#include "backends/common/peer_error.h"
#include "backends/common/rank_state.h"
#include "backends/common/rendezvous.h"
#include "backends/common/replica_check.h"
#include "backends/common/run_checkpoints.h"
#include "backends/common/step_times.h"
#include "backends/common/training_setup.h"
#include "core/engine/learning_rate.h"
#include "core/engine/loss_scaler.h"
#include "core/engine/step_loop.h"
#include "core/error.h"
#include "core/report/throughput.h"

namespace trainyard {
namespace {

// Steps until caches, allocations and connections are as they stay.
constexpr std::int64_t kStepsToWarmUp = 10;

class TrainingRun {
 public:
  TrainingRun(const Job& job, const TrainingOptions& options, RunObserver* observer);
  void run();

 private:
  // What ranks tell each other after each step.
  struct Shared {
    double loss = 0, targets = 0, next_targets = 0;
  };
  void start_state();
  std::int64_t step();
  StepReport run(const ProgramSet& programs, const StepInputs& inputs);
  Shared share(const StepReport& report, std::int64_t next_step);
  void judge(const StepReport& report, double loss);
  double evaluate();
  void check_replicas();
  void maintain();
  void choose_traced_step();
  void tell_times(std::vector<TraceEvent> own, Time mark);
  RunFacts facts() const;
  SamplerState samples_after(std::int64_t steps) const;
  bool speaks_for_replica() const;  // one rank of each data rank's last stage

  const Job& job_;
  const TrainingOptions& options_;
  RunObserver* observer_;
  const Mesh mesh_;
  const Coord coord_;
  const Plans plans_;
  const std::int64_t total_;
  const Dataset dataset_;
  const Surroundings around_;
  std::unique_ptr<RealBackend> backend_;
  RankState state_;
  TrainingFeed feed_;
  RunCheckpoints checkpoints_;
  LossScaler scaler_;
  RunProgress progress_;
  std::int64_t next_targets_ = 0;  // of the next step's global batch
  std::optional<double> validation_loss_;
  Time last_end_, last_waited_;
  std::int64_t traced_step_ = 0;  // 0: none
};

TrainingRun::TrainingRun(const Job& job, const TrainingOptions& options, RunObserver* observer)
    : job_(job),
      options_(options),
      observer_(observer),
      mesh_(job.mesh()),
      coord_(mesh_.coord(options.rank)),
      plans_(make_plans(job)),
      total_(total_steps(job)),
      dataset_(open_dataset(job)),
      around_(meet_others(job, options, plans_)),
      backend_(options.make_backend(
          job, backend_options(job, options, around_, plans_.memory(coord_[Axis::pipeline])))),
      state_(job, *plans_.training.by_stage[coord_[Axis::pipeline]], coord_, backend_->memory()),
      feed_(job, dataset_, options.rank, around_.node, options.store),
      checkpoints_(job, options, plans_.training.hash),
      scaler_(job.optimization) {
  backend_->connect(mesh_);
  start_state();
}

SamplerState TrainingRun::samples_after(std::int64_t steps) const {
  SamplerState state{job_.seed, dataset_.samples(Split::training), 0, 0};
  skip_samples(state, steps * job_.batch.global_sequences);
  return state;
}

void TrainingRun::start_state() {
  progress_ = checkpoints_.start(state_, samples_after(0));
  if (job_.training.precision == Precision::fp16 && progress_.loss_scale.scale > 0)
    scaler_ = LossScaler(job_.optimization, progress_.loss_scale);
  choose_traced_step();
  feed_.start(progress_.steps, progress_.data);
  next_targets_ = static_cast<std::int64_t>(share({}, progress_.steps).next_targets);
  last_end_ = backend_->now();
}

bool TrainingRun::speaks_for_replica() const {
  return coord_[Axis::pipeline] == mesh_.size(Axis::pipeline) - 1 && coord_[Axis::tensor] == 0 &&
         coord_[Axis::context] == 0;
}

// Sums what ranks have to tell: the loss is known to the last stage, the targets of the next batch
// to those that read it.
TrainingRun::Shared TrainingRun::share(const StepReport& report, std::int64_t next_step) {
  std::array<double, 3> sums{};
  if (speaks_for_replica()) {
    if (coord_[Axis::data] == 0 && report.targets > 0) {
      sums[0] = report.loss * static_cast<double>(report.targets);
      sums[1] = static_cast<double>(report.targets);
    }
    if (next_step < total_)
      sums[2] =
          static_cast<double>(count_targets(feed_.batch(next_step), job_.batch.sequence_length));
  }
  backend_->sum_over_ranks(sums);
  return {sums[1] > 0 ? sums[0] / sums[1] : 0, sums[1], sums[2]};
}

StepReport TrainingRun::run(const ProgramSet& programs, const StepInputs& inputs) {
  const StepReport report = run_step(*backend_, programs, mesh_, inputs, kNever);
  if (report.outcome == Outcome::peer_gone) throw PeerGone(report.message);
  if (report.outcome != Outcome::done) throw std::runtime_error(report.message);
  return report;
}

// A skipped step is usual in half precision; elsewhere numbers that are none end the run.
void TrainingRun::judge(const StepReport& report, double loss) {
  const std::int64_t number = progress_.steps + 1;
  if (job_.training.precision == Precision::fp16) {
    if (const std::string problem = scaler_.update(report.skipped); !problem.empty())
      throw std::runtime_error(fmt::format("step {}: {}", number, problem));
    if (report.skipped) return;
  }
  if (!std::isfinite(loss))  // a NaN of either sign is told as one
    throw std::runtime_error(fmt::format("step {}: the loss is {}", number, std::abs(loss)));
  if (report.skipped)
    throw std::runtime_error(
        fmt::format("step {}: the norm of the gradients is {}", number, report.gradient_norm));
}

std::int64_t TrainingRun::step() {
  StepInputs inputs;
  inputs.step = progress_.steps;
  inputs.feed = &feed_;
  inputs.valid_tokens = next_targets_;
  inputs.update = progress_.updates + 1;
  inputs.learning_rate = learning_rate(job_.optimization, total_, progress_.steps);
  if (job_.training.precision == Precision::fp16) inputs.loss_scale = scaler_.scale();
  const bool traced = progress_.steps + 1 == traced_step_;
  inputs.traced = traced && std::ranges::count(options_.traced, options_.rank) > 0;

  StepReport report = run(plans_.training, inputs);
  const Shared shared = share(report, progress_.steps + 1);
  if (traced) tell_times(std::move(report.trace), backend_->now());
  judge(report, shared.loss);
  ++progress_.steps;
  if (!report.skipped) ++progress_.updates;
  progress_.loss_scale = scaler_.state();
  next_targets_ = static_cast<std::int64_t>(shared.next_targets);
  if (observer_ != nullptr) {
    const Time now = backend_->now(), waited = feed_.waited();
    observer_->step({progress_.steps, shared.loss, report.gradient_norm, inputs.learning_rate,
                     inputs.loss_scale, report.skipped, now - last_end_, waited - last_waited_,
                     job_.batch.global_sequences * job_.batch.sequence_length});
    last_end_ = now;
    last_waited_ = waited;
  }
  return progress_.steps;
}

void TrainingRun::choose_traced_step() {
  if (options_.traced.empty()) return;
  traced_step_ = options_.traced_step > 0 ? options_.traced_step
                                          : std::min(progress_.steps + kStepsToWarmUp, total_);
  if (traced_step_ <= progress_.steps || traced_step_ > total_)
    throw ConfigError(fmt::format("step {} cannot be traced: this run does steps {} to {}",
                                  traced_step_, progress_.steps + 1, total_));
}

// `mark`: a moment that is the same on all ranks.
void TrainingRun::tell_times(std::vector<TraceEvent> own, Time mark) {
  const std::string key = fmt::format("times/{}", options_.attempt);
  const StepTimes times{host_identity(), mark, std::move(own)};
  const bool alone = mesh_.size() == 1;
  if (!alone && !times.events.empty()) leave_times(*options_.store, key, options_.rank, times);
  if (observer_ == nullptr) return;
  std::vector<TraceEvent> events =
      alone ? times.events
            : gather_times(*options_.store, key, options_.traced, times, timeout_of(job_));
  order_events(events);
  observer_->trace({traced_step_, plans_.training, mesh_, events});
}

// Mean loss over the validation split, or as much of it as the job asks for.
double TrainingRun::evaluate() {
  const Time start = backend_->now();
  std::int64_t sequences = dataset_.samples(Split::validation);
  if (job_.running.evaluation_sequences > 0)
    sequences = std::min(sequences, job_.running.evaluation_sequences);
  ValidationFeed feed(job_, dataset_, coord_[Axis::data], sequences);
  const std::int64_t batch = job_.batch.global_sequences;
  std::array<double, 2> sums{};
  for (std::int64_t i = 0; i * batch < sequences; ++i) {
    StepInputs inputs;
    inputs.step = i;
    inputs.feed = &feed;
    const StepReport report = run(plans_.evaluation, inputs);
    if (!speaks_for_replica() || coord_[Axis::data] > 0) continue;
    sums[0] += report.loss * static_cast<double>(report.targets);
    sums[1] += static_cast<double>(report.targets);
  }
  backend_->sum_over_ranks(sums);
  const double loss = sums[1] > 0 ? sums[0] / sums[1] : 0;
  if (observer_ != nullptr)
    observer_->evaluation({progress_.steps, loss, sequences, backend_->now() - start});
  last_end_ = backend_->now();
  return loss;
}

void TrainingRun::check_replicas() {
  const std::string problem =
      replica_differences(state_, mesh_, options_.rank,
                          [&](std::span<double> values) { backend_->sum_over_ranks(values); });
  if (!problem.empty())
    throw std::runtime_error(fmt::format("step {}: {}", progress_.steps, problem));
}

// What is due between steps.
void TrainingRun::maintain() {
  const auto due = [&](std::int64_t every) {
    return progress_.steps == total_ || (every > 0 && progress_.steps % every == 0);
  };
  if (!plans_.evaluation.by_stage.empty() && due(job_.running.evaluation_steps))
    validation_loss_ = evaluate();
  if (due(job_.running.checkpoint_steps)) {
    check_replicas();
    progress_.data = samples_after(progress_.steps);
    checkpoints_.write(state_, progress_, validation_loss_, observer_);
    validation_loss_.reset();
  }
  checkpoints_.poll(observer_);
}

RunFacts TrainingRun::facts() const {
  RunFacts facts;
  facts.job = job_.name;
  facts.program_hash = plans_.training.hash;
  facts.ranks = mesh_.size();
  facts.total_steps = total_;
  facts.steps_done = progress_.steps;
  facts.tokens_per_step = job_.batch.global_sequences * job_.batch.sequence_length;
  facts.model_flops_per_token =
      model_flops_per_token(job_.model, job_.batch.sequence_length, job_.training.flops);
  facts.peak = peak_rate(job_.cluster.gpu, job_.training.precision);
  for (std::int32_t stage = 0; stage < job_.stages(); ++stage)
    facts.peak_memory = std::max(facts.peak_memory, plans_.memory(stage));
  return facts;
}

void TrainingRun::run() {
  if (observer_ != nullptr) observer_->begin(facts());
  std::exception_ptr failure;
  std::string problem;
  try {
    while (progress_.steps < total_) {
      step();
      maintain();
    }
    checkpoints_.finish(observer_);
  } catch (const std::exception& error) {
    failure = std::current_exception();
    problem = error.what();
  }
  if (observer_ != nullptr) observer_->end({progress_.steps, problem, job_.warnings});
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

void run_training(const Job& job, const TrainingOptions& options, RunObserver* observer) {
  TrainingRun(job, options, observer).run();
}

}  // namespace trainyard
