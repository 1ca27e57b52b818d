#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "backends/backends.h"
#include "backends/common/batch_feeds.h"
#include "backends/common/launcher.h"
#include "backends/common/observers/console_log.h"
#include "backends/common/observers/metrics_file.h"
#include "backends/common/observers/run_observers.h"
#include "backends/common/observers/tensorboard_file.h"
#include "backends/common/observers/train_json.h"
#include "backends/common/patience.h"
#include "backends/common/session.h"
#include "backends/common/training_run.h"
#include "backends/common/worker_place.h"
#include "core/engine/learning_rate.h"
#include "core/error.h"
#include "tools/trainyard/command.h"
#include "tools/trainyard/inputs.h"
#include "tools/trainyard/local_ranks.h"
#include "tools/trainyard/output.h"
#include "tools/trainyard/trace.h"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

struct TrainOptions {
  Inputs inputs;
  std::string backend = "cpu", weights, interface, store;
  std::int32_t processes = 0;  // to start here; 0: as many as the job has ranks
  bool resume = false;
  TraceOptions trace{.file = {}, .ranks = "all"};
  std::int64_t trace_step = 0;
};

// Everything that can be wrong with the input, found before any process is started.
void check_input(const TrainOptions& options, const Job& job) {
  training_backend(options.backend);
  parse_ranks(options.trace.ranks, job);
  total_steps(job);
  open_dataset(job);
  if (options.processes != 0 && options.processes != job.gpus())
    throw ConfigError(fmt::format("--nproc {} does not fit the job: {} = {} ranks",
                                  options.processes, axes_text(job.parallel), job.gpus()));
  if (options.resume && options.inputs.out_dir.empty())
    throw ConfigError("--resume needs --out, the folder of the run to go on with");
  if (options.resume && !options.weights.empty())
    throw ConfigError("--resume goes on with a run's own weights; leave out --weights");
}

int launch_ranks(const TrainOptions& options, const Job& job) {
  const Output writable(options.inputs,
                        "train");  // what rank 0 would refuse is told by one process
  LaunchOptions launching;
  launching.run_id = new_run_id();
  const MeetingFolder folder(launching.run_id);
  launching.command = own_command();
  launching.processes = job.gpus();
  launching.store = options.store.empty() ? folder.address() : options.store;
  launching.rank0_stdout_plain = true;
  return launch(launching);
}

// A name for this start of the run, which rank 0 makes up for all.
std::string agree_on_attempt(Store* store, const WorkerPlace& place, const Job& job) {
  const std::string key = "attempt";
  if (place.rank > 0) return wait_for(*store, std::span(&key, 1), timeout_of(job)).front();
  std::string attempt = new_run_id();
  if (store != nullptr) store->set(key, attempt);
  return attempt;
}

// What rank 0 tells of the run, and to whom.
struct Reports {
  std::optional<Output> output;
  RunObservers observers;
  std::shared_ptr<TrainJson> document = std::make_shared<TrainJson>();
};

class TraceFile final : public RunObserver {
 public:
  TraceFile(const TraceOptions& options, Output& output) : options_(options), output_(output) {}
  void trace(const TraceRecord& record) override {
    const TraceText text = trace_text(record.programs, record.mesh, record.events, options_);
    if (!text.warning.empty()) fmt::print(stderr, "trainyard: {}\n", text.warning);
    output_.write_extra(options_.file, text.content);
  }

 private:
  const TraceOptions& options_;
  Output& output_;
};

void open_reports(const TrainOptions& options, const Job& job, Reports& reports) {
  reports.output.emplace(options.inputs, "train");
  reports.output->expect_extra(options.trace.file);
  if (!options.trace.file.empty())
    reports.observers.add(std::make_shared<TraceFile>(options.trace, *reports.output));
  reports.observers.add(reports.document);
  if (!reports.output->json_on_stdout())
    reports.observers.add(std::make_shared<ConsoleLog>(
        job.running.log_steps, ReportFile("-", ReportFile::Start::append), progress_terminal()));
  if (options.inputs.out_dir.empty()) return;
  const fs::path out = options.inputs.out_dir;
  reports.observers.add(std::make_shared<MetricsFile>((out / "metrics.jsonl").string()));
  reports.observers.add(std::make_shared<TensorboardFile>((out / "tensorboard").string()));
}

void write_document(Reports& reports) {
  const Json document = reports.document->document();
  reports.output->write(
      document,
      fmt::format("step {}: loss {}, validation loss {}\n", document["final"]["step"].dump(),
                  document["final"]["loss"].dump(), document["final"]["validation_loss"].dump()));
}

int train_as(const WorkerPlace& place, const TrainOptions& options, const Job& job) {
  if (place.world != job.gpus())
    throw ConfigError(fmt::format("{} processes were started, but the job has {} = {} ranks",
                                  place.world, axes_text(job.parallel), job.gpus()));
  std::unique_ptr<Store> store;
  if (place.world > 1) store = open_session(with_store(place, options.store), timeout_of(job));
  TrainingOptions training;
  training.rank = RankId(place.rank);
  training.store = store.get();
  training.attempt = agree_on_attempt(store.get(), place, job);
  training.interface = options.interface;
  if (!options.inputs.out_dir.empty())
    training.folder = fs::path(options.inputs.out_dir) / "checkpoints";
  training.resume = options.resume;
  training.weights = options.weights;
  if (!options.trace.file.empty()) training.traced = parse_ranks(options.trace.ranks, job);
  training.traced_step = options.trace_step;
  training.make_backend = training_backend(options.backend).make;
  if (place.rank > 0) {
    run_training(job, training, nullptr);
    return 0;
  }
  Reports reports{std::nullopt, RunObservers([](const std::string& problem) {
                    fmt::print(stderr, "trainyard: {}\n", problem);
                  }),
                  std::make_shared<TrainJson>()};
  open_reports(options, job, reports);
  try {
    run_training(job, training, &reports.observers);
  } catch (const ConfigError&) {
    throw;  // nothing was done
  } catch (const std::exception&) {
    write_document(reports);  // what was done until then, and why it ended
    throw;
  }
  write_document(reports);
  return 0;
}

int train(const TrainOptions& options) {
  const Job job = load(options.inputs);
  check_input(options, job);
  if (const auto place = worker_place(process_environment())) return train_as(*place, options, job);
  if (job.gpus() > 1) return launch_ranks(options, job);
  return train_as({}, options, job);
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "train", "Train a model for real, a process a rank, as it was planned and simulated");
  auto options = std::make_shared<TrainOptions>();
  add_inputs(*command, options->inputs);
  command->add_option("--backend", options->backend, "What computes: cpu or cuda")
      ->capture_default_str();
  command
      ->add_option("--nproc", options->processes,
                   "Processes to start on this machine: the job's ranks, which is the default")
      ->check(CLI::PositiveNumber);
  command->add_flag("--resume", options->resume, "Go on from the newest whole checkpoint in --out");
  command->add_option("--weights", options->weights,
                      "Checkpoint (step-…) whose weights the run starts from");
  command->add_option("--store", options->store,
                      "Where ranks meet: file:DIRECTORY or redis://HOST:PORT");
  add_trace(*command, options->trace);
  command
      ->add_option(
          "--trace-step", options->trace_step,
          "Step to trace; without it the tenth of this start, or the last if there are fewer")
      ->check(CLI::PositiveNumber);
  command->add_option("--interface", options->interface,
                      "Network interface between hosts, such as eth0");
  command->callback([&action, options] { action = [options] { return train(*options); }; });
}

}  // namespace trainyard
