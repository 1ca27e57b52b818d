#include "backends/common/run_checkpoints.h"

#include <fmt/format.h>

#include "backends/common/patience.h"
#include "core/error.h"

namespace trainyard {
namespace {

using SteadyClock = std::chrono::steady_clock;

Time since(SteadyClock::time_point start) {
  return nanoseconds(std::chrono::nanoseconds(SteadyClock::now() - start).count());
}

}  // namespace

RunCheckpoints::RunCheckpoints(const Job& job, const TrainingOptions& options,
                               std::uint64_t program_hash)
    : job_(job), options_(options), program_hash_(program_hash) {
  if (!options.folder.empty()) store_.emplace(options.folder);
}

// What rank 0 starts from: a checkpoint's path, or empty.
std::string RunCheckpoints::choose() const {
  if (!store_) return {};
  store_->prepare();
  const NewestCheckpoint newest = newest_checkpoint(*store_);
  for (const std::string& problem : newest.rejected)
    fmt::print(stderr, "a damaged checkpoint is left out: {}\n", problem);
  if (options_.resume && newest.path.empty())
    throw ConfigError(
        fmt::format("there is no whole checkpoint to resume in {}", store_->root().string()));
  if (!options_.resume && !newest.path.empty())
    throw ConfigError(fmt::format(
        "{} holds checkpoints of an earlier run; --resume goes on from {}, or choose another --out",
        store_->root().string(), newest.path.filename().string()));
  return newest.path.string();
}

// Rank 0's choice on every rank, or its reason to choose none.
std::string RunCheckpoints::agree() const {
  constexpr std::string_view kChosen = "start ", kRefused = "refused ";
  const std::string key = "start";
  if (options_.rank > RankId(0)) {
    const std::string answer =
        wait_for(*options_.store, std::span(&key, 1), timeout_of(job_)).front();
    if (answer.starts_with(kRefused)) throw ConfigError(answer.substr(kRefused.size()));
    return answer.substr(kChosen.size());
  }
  const auto tell = [&](std::string_view kind, const std::string& text) {
    if (options_.store != nullptr) options_.store->set(key, std::string(kind) + text);
  };
  try {
    const std::string path = choose();
    tell(kChosen, path);
    return path;
  } catch (const ConfigError& refusal) {
    tell(kRefused, refusal.what());
    throw;
  }
}

RunProgress RunCheckpoints::resume(const std::string& path, RankState& state) const {
  const CheckpointReader reader(path);
  reader.expect(job_.model, job_.batch.sequence_length);
  if (!reader.has(kCheckpointParts[1]))
    throw ConfigError(fmt::format("{}: has weights alone, nothing to resume", path));
  state.load(reader, true);
  const CheckpointManifest& m = reader.manifest();
  RunProgress progress;
  progress.steps = m.step;
  progress.data = m.data;
  progress.updates = m.state.value("updates", m.step);
  progress.loss_scale = {m.state.value("loss_scale", 0.0),
                         m.state.value("good_steps", std::int64_t{0})};
  return progress;
}

RunProgress RunCheckpoints::start(RankState& state, const SamplerState& first) {
  const std::string path = agree();
  if (store_)
    writer_.emplace(CheckpointOptions{
        options_.folder, static_cast<std::int32_t>(index(options_.rank)), job_.gpus(),
        options_.attempt, job_.running.keep_checkpoints, job_.running.keep_best});
  if (!path.empty()) return resume(path, state);
  if (options_.weights.empty()) {
    state.start(InitialWeights(job_.model, job_.batch.sequence_length, job_.seed));
  } else {
    const CheckpointReader reader(options_.weights);
    reader.expect(job_.model, job_.batch.sequence_length);
    state.load(reader, false);
  }
  RunProgress progress;
  progress.data = first;
  return progress;
}

void RunCheckpoints::collect(RunObserver* observer) {
  if (!pending_) return;
  pending_ = false;
  if (const std::string problem = writer_->wait(); !problem.empty())
    throw std::runtime_error(problem);
  if (observer != nullptr)
    observer->checkpoint({pending_step_, store_->folder(pending_step_).string(), pending_bytes_,
                          pending_blocked_, since(started_)});
}

void RunCheckpoints::write(RankState& state, const RunProgress& progress,
                           std::optional<double> validation_loss, RunObserver* observer) {
  if (!writer_) return;
  const auto start = SteadyClock::now();
  collect(observer);
  CheckpointManifest manifest;
  manifest.step = progress.steps;
  manifest.program_hash = fmt::format("{:016x}", program_hash_);
  manifest.model = job_.model;
  manifest.sequence = job_.batch.sequence_length;
  manifest.data = progress.data;
  manifest.validation_loss = validation_loss;
  manifest.state = {{"updates", progress.updates}};
  if (job_.training.precision == Precision::fp16) {
    manifest.state["loss_scale"] = progress.loss_scale.scale;
    manifest.state["good_steps"] = progress.loss_scale.good_steps;
  }
  std::vector<CheckpointPiece> pieces = state.save();
  pending_bytes_ = {};
  for (const CheckpointPiece& piece : pieces)
    pending_bytes_ += Bytes{piece.rectangle.elements() * static_cast<std::int64_t>(sizeof(float))};
  writer_->start(std::move(manifest), std::move(pieces));
  pending_ = true;
  pending_step_ = progress.steps;
  started_ = start;
  pending_blocked_ = since(start);
}

void RunCheckpoints::poll(RunObserver* observer) {
  if (pending_ && !writer_->busy()) collect(observer);
}

void RunCheckpoints::finish(RunObserver* observer) { collect(observer); }

}  // namespace trainyard
