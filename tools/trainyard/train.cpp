#include <fmt/core.h>

#include <cstdlib>

#include "backends/common/training_run.h"
#include "backends/cpu/cpu_backend.h"
#include "core/error.h"
#include "tools/trainyard/command.h"
#include "tools/trainyard/inputs.h"

namespace trainyard {
namespace {

struct TrainOptions {
  Inputs inputs;
  std::string backend = "cpu", weights, interface;
  bool resume = false;
};

class Printer final : public RunObserver {
 public:
  void begin(const RunFacts& f) override {
    fmt::print("program {:016x}, {} ranks, {} steps\n", f.program_hash, f.ranks, f.total_steps);
  }
  void step(const StepRecord& r) override {
    fmt::print("step {} loss {:.6f} norm {:.6f} lr {:.3e} time {:.1f} ms\n", r.step, r.loss,
               r.grad_norm, r.learning_rate, to_seconds(r.time) * 1e3);
    std::fflush(stdout);
  }
  void evaluation(const EvaluationRecord& r) override {
    fmt::print("validation {:.6f} of {}\n", r.loss, r.sequences);
  }
  void checkpoint(const CheckpointRecord& r) override { fmt::print("checkpoint {}\n", r.path); }
  void end(const RunEnd&) override {}
};

std::string variable(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : fallback;
}

int run(const TrainOptions& options) {
  const Job job = load(options.inputs);
  TrainingOptions training;
  training.rank = RankId(std::stoi(variable("TRAINYARD_RANK", "0")));
  std::unique_ptr<Store> store;
  const std::string address = variable("TRAINYARD_STORE", "");
  training.attempt = variable("TRAINYARD_RUN_ID", "0");
  if (!address.empty()) store = open_store(address, training.attempt);
  training.store = store.get();
  training.interface = options.interface;
  if (!options.inputs.out_dir.empty())
    training.folder = std::filesystem::path(options.inputs.out_dir) / "checkpoints";
  training.resume = options.resume;
  training.weights = options.weights;
  training.make_backend = make_cpu_backend;
  Printer printer;
  run_training(job, training, training.rank == RankId(0) ? &printer : nullptr);
  return 0;
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Trains a job on a real backend.");
  add_inputs(*command, options->inputs);
  command->add_option("--backend", options->backend, "cpu");
  command->add_flag("--resume", options->resume, "go on from the newest whole checkpoint in --out");
  command->add_option("--weights", options->weights,
                      "checkpoint whose weights the run starts from");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace trainyard
