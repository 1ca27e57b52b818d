#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

#include "backends/backends.h"
#include "backends/common/calibration/calibration.h"
#include "backends/common/calibration/measure.h"
#include "backends/common/launcher.h"
#include "backends/common/session.h"
#include "backends/common/worker_place.h"
#include "core/config/choices.h"
#include "core/error.h"
#include "tools/trainyard/calibrate_from.h"
#include "tools/trainyard/command.h"
#include "tools/trainyard/local_ranks.h"
#include "tools/trainyard/output.h"

namespace trainyard {
namespace {

constexpr std::int32_t kMostRanks = 64;

struct CalibrateOptions {
  std::string backend = "cpu", precision, out, json;
  CalibrateFrom from;
  std::vector<std::int32_t> ranks;  // empty: 2, 4 and 8, as many as there are devices for
  std::int64_t seconds = 60;
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return fmt::format("{:04}-{:02}-{:02}", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday);
}

Json samples_json(const Samples& samples) {
  Json kernels = Json::array(), calls = Json::array();
  for (const KernelSample& s : samples.kernels)
    kernels.push_back({{"kernel", s.name},
                       {"threads", s.threads},
                       {"flops", s.flops},
                       {"bytes", s.bytes},
                       {"us", s.us}});
  for (const CallSample& s : samples.calls)
    calls.push_back({{"op", op_name(s.op)},
                     {"ranks", s.ranks},
                     {"bytes", s.bytes},
                     {"us", s.us},
                     {"work_us", s.work_us}});
  const DeviceCosts& device = samples.device;
  return {{"kernels", kernels},
          {"calls", calls},
          {"launch_us", device.launch_us},
          {"graph_launch_us", device.graph_launch_us},
          {"copy_gbs", device.copy_gbs}};
}

Precision precision_of(const CalibrateOptions& options, const Machine& machine) {
  if (options.precision.empty()) return machine.devices > 0 ? Precision::bf16 : Precision::fp32;
  std::string names;
  for (const auto& choice : choices<Precision>()) {
    if (choice.name == options.precision) return choice.value;
    names += (names.empty() ? "" : ", ") + std::string(choice.name);
  }
  throw ConfigError(fmt::format("--precision {}: valid: {}", options.precision, names));
}

// Sizes of the groups whose calls are timed.
std::vector<std::int32_t> group_sizes(const CalibrateOptions& options, const Machine& machine) {
  const std::int32_t most = machine.devices > 0 ? machine.devices : kMostRanks;
  for (const std::int32_t ranks : options.ranks)
    if (ranks < 2 || ranks > most)
      throw ConfigError(most < 2 ? fmt::format("--ranks {}: there is one GPU", ranks)
                                 : fmt::format("--ranks {}: valid: 2 to {}", ranks, most));
  if (!options.ranks.empty()) return options.ranks;
  std::vector<std::int32_t> usual;
  for (const std::int32_t ranks : {2, 4, 8})
    if (ranks <= most) usual.push_back(ranks);
  return usual;
}

int calibrate_as(const WorkerPlace& place, const CalibrateOptions& options,
                 const Machine& machine) {
  constexpr std::chrono::minutes kPatience{2};
  std::unique_ptr<Store> store;
  if (place.world > 1) store = open_session(with_store(place, ""), kPatience);
  MeasureOptions measuring;
  measuring.place = {RankId(place.rank), place.world, store.get()};
  measuring.cores = machine.cores;
  measuring.rank_counts = group_sizes(options, machine);
  measuring.on_devices = machine.devices > 0;
  measuring.device = place.local_rank;
  measuring.precision = machine.precision;
  measuring.limit = std::chrono::seconds(options.seconds);
  measuring.make_backend = training_backend(options.backend).make;
  const Samples samples = measure(measuring);
  if (place.rank > 0) return 0;
  const Calibration calibration = calibrate(samples, machine);
  const std::string origin =
      fmt::format("Written by trainyard calibrate {} on {}", TRAINYARD_VERSION, today());
  const std::string profile = profile_text(calibration, origin);
  if (!options.json.empty()) PendingFile(options.json).commit(samples_json(samples).dump(1) + "\n");
  if (options.out.empty()) {
    print_all(profile);
    fmt::print(stderr, "{}", error_table(calibration));
  } else {
    PendingFile(options.out).commit(profile);
    print_all(error_table(calibration));
  }
  return 0;
}

int calibrate(const CalibrateOptions& options) {
  if (!options.from.table.empty()) {
    CalibrateFrom from = options.from;
    from.out = options.out, from.json = options.json;
    return calibrate_from(from);
  }
  Machine machine = training_backend(options.backend).machine();
  machine.precision = precision_of(options, machine);
  const std::vector<std::int32_t> groups = group_sizes(options, machine);
  if (const auto place = worker_place(process_environment()))
    return calibrate_as(*place, options, machine);
  const std::int32_t processes = processes_for(machine.devices > 0 ? 1 : machine.cores, groups);
  if (processes == 1) return calibrate_as({}, options, machine);
  LaunchOptions launching;
  launching.run_id = new_run_id();
  const MeetingFolder folder(launching.run_id);
  launching.command = own_command();
  launching.processes = processes;
  launching.store = folder.address();
  launching.rank0_stdout_plain = true;
  return launch(launching);
}

}  // namespace

void add_calibrate(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "calibrate", "Measure this machine and write the profile by which sim predicts its steps");
  auto options = std::make_shared<CalibrateOptions>();
  command->add_option("--backend", options->backend, "What computes: cpu or cuda")
      ->capture_default_str();
  command
      ->add_option("--ranks", options->ranks,
                   "Sizes of the groups whose calls are timed: of 2, 4, 8 those there are GPUs for")
      ->delimiter(',');
  command->add_option("--precision", options->precision,
                      "What the trainings compute in; default: fp32 on processors, bf16 on GPUs");
  command
      ->add_option("--seconds", options->seconds,
                   "About how long to time a GPU's kernels; larger shapes are left out")
      ->capture_default_str()
      ->check(CLI::Range(1, 3600));
  command->add_option("--out", options->out, "File for the profile; default: standard output");
  command->add_option("--json", options->json, "File for all measured times");
  CLI::Option* from = command->add_option(
      "--from", options->from.table, "Fit to a CSV file of kernel or collective times instead");
  command->add_option("--cluster", options->from.cluster, "With --from: the preset to start from")
      ->needs(from);
  command->add_option("--set", options->from.sets, "With --from: KEY=VALUE, where it starts")
      ->needs(from);
  command
      ->add_option("--where", options->from.where,
                   "With --from: COLUMN=TEXT, only rows whose cell contains the text")
      ->needs(from);
  command
      ->add_option("--keep", options->from.keep,
                   "With --from: constants whose key contains the text are not moved")
      ->needs(from);
  command
      ->add_option(
          "--together", options->from.together,
          "With --from: constants whose key contains the text, or one of A,B, keep their ratios")
      ->needs(from);
  command
      ->add_option("--write", options->from.write,
                   "With --from: only constants whose key contains the text are written")
      ->needs(from);
  command
      ->add_flag("--constants-only", options->from.constants_only,
                 "With --from: without the preset, for a profile that takes the file as its base")
      ->needs(from);
  command->add_option("--folds", options->from.folds, "With --from: parts of cross-validation")
      ->needs(from)
      ->check(CLI::Range(2, 100));
  command->callback([&action, options] { action = [options] { return calibrate(*options); }; });
}

}  // namespace trainyard
