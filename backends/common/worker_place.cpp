#include "backends/common/worker_place.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace trainyard {
namespace {

// What a launcher calls the four numbers, and what keeps two of its runs apart.
struct Launcher {
  const char* name;
  const char *rank, *world, *local_rank, *local_world;
  std::vector<const char*> run_id;

  std::vector<const char*> numbers() const { return {rank, world, local_rank, local_world}; }
};

constexpr const char *kStore = "TRAINYARD_STORE", *kRunId = "TRAINYARD_RUN_ID";

Launcher own_launcher() {
  return {"trainyard",
          "TRAINYARD_RANK",
          "TRAINYARD_WORLD_SIZE",
          "TRAINYARD_LOCAL_RANK",
          "TRAINYARD_LOCAL_WORLD_SIZE",
          {}};
}

// In the order in which they are asked: who starts others leaves variables of its own behind, so
// that torchrun under srun shows both, and mpirun in a Slurm job starts its daemons by srun.
std::vector<Launcher> launchers() {
  return {own_launcher(),
          {"torchrun",
           "RANK",
           "WORLD_SIZE",
           "LOCAL_RANK",
           "LOCAL_WORLD_SIZE",
           {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"}},
          {"mpirun of Open MPI",
           "OMPI_COMM_WORLD_RANK",
           "OMPI_COMM_WORLD_SIZE",
           "OMPI_COMM_WORLD_LOCAL_RANK",
           "OMPI_COMM_WORLD_LOCAL_SIZE",
           {"PMIX_NAMESPACE"}},
          {"mpirun of MPICH or Intel MPI",
           "PMI_RANK",
           "PMI_SIZE",
           "MPI_LOCALRANKID",
           "MPI_LOCALNRANKS",
           {}},
          {"srun",
           "SLURM_PROCID",
           "SLURM_NTASKS",
           "SLURM_LOCALID",
           "SLURM_STEP_TASKS_PER_NODE",
           {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}}};
}

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string value_or_empty(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

// The count of node `node` in Slurm's list of counts, such as "4(x3),2"; none if it has no such.
std::optional<std::string> count_of_node(std::string_view list, std::int64_t node) {
  while (!list.empty()) {
    const std::string_view part = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), part.size() + 1));
    const std::size_t bracket = part.find("(x");
    std::int64_t nodes = 1;
    if (bracket != std::string_view::npos)
      nodes = number_in(part.substr(bracket + 2, part.size() - bracket - 3)).value_or(0);
    if (node < nodes) return std::string(part.substr(0, bracket));
    node -= nodes;
  }
  return std::nullopt;
}

// The environment with Slurm's variables as plain as the others': those of a batch script or an
// interactive shell, which are no worker, are taken out; tasks per node is the number of this node.
Environment with_plain_slurm(Environment environment) {
  constexpr std::int64_t kLastNormalStep = 0xffff'fff0;  // slurm.h: SLURM_MAX_NORMAL_STEP_ID
  const auto step = number_in(value_or_empty(environment, "SLURM_STEP_ID"));
  if (environment.contains("SLURM_JOB_ID") && (!step || *step > kLastNormalStep)) {
    for (const char* name : launchers().back().numbers()) environment.erase(name);
    return environment;
  }
  const auto per_node = environment.find("SLURM_STEP_TASKS_PER_NODE");
  const auto node = number_in(value_or_empty(environment, "SLURM_NODEID")).value_or(0);
  if (per_node != environment.end())
    per_node->second = count_of_node(per_node->second, node).value_or(per_node->second);
  else if (environment.contains("SLURM_NTASKS_PER_NODE"))
    environment["SLURM_STEP_TASKS_PER_NODE"] = environment["SLURM_NTASKS_PER_NODE"];
  return environment;
}

class PlaceReader {
 public:
  PlaceReader(const Environment& environment, const Launcher& launcher)
      : environment_(environment), launcher_(launcher) {}

  WorkerPlace read() {
    WorkerPlace place;
    place.world = number(launcher_.world, 1, nullptr);
    place.rank = number(launcher_.rank, 0, launcher_.world);
    place.local_world = number(launcher_.local_world, 1, launcher_.world);
    place.local_rank = number(launcher_.local_rank, 0, launcher_.local_world);
    place.store = value_or_empty(environment_, kStore);
    place.run_id = run_id();
    if (launcher_.name == std::string_view("trainyard"))
      for (const char* name : {kStore, kRunId})
        if (!environment_.contains(name)) missing(name);
    if (!violations_.empty()) throw ConfigError(std::move(violations_));
    return place;
  }

 private:
  // `name`'s number from `low` (0: an index below `bound`'s number; 1: a count up to it).
  std::int32_t number(const char* name, std::int32_t low, const char* bound) {
    const auto found = environment_.find(name);
    if (found == environment_.end()) return missing(name), low;
    std::int64_t high = INT32_MAX;
    if (bound != nullptr) {
      const auto limit = number_in(value_or_empty(environment_, bound));
      if (limit && *limit >= 1 && *limit <= INT32_MAX) high = *limit - 1 + low;
    }
    const auto value = number_in(found->second);
    if (value && *value >= low && *value <= high) return static_cast<std::int32_t>(*value);
    std::string valid = fmt::format("a whole number from {}", low);
    if (high != INT32_MAX)
      valid = fmt::format("{} to {}, since {} is {}", low, high, bound, high + 1 - low);
    violations_.push_back(fmt::format("{} is \"{}\"; valid: {}", name, found->second, valid));
    return low;
  }

  void missing(const char* name) {
    violations_.push_back(fmt::format("{} is not set; {} sets {}", name, launcher_.name,
                                      fmt::join(launcher_.numbers(), ", ")));
  }

  std::string run_id() const {
    if (environment_.contains(kRunId)) return value_or_empty(environment_, kRunId);
    std::vector<std::string> parts;
    for (const char* name : launcher_.run_id)
      if (environment_.contains(name)) parts.push_back(value_or_empty(environment_, name));
    return fmt::format("{}", fmt::join(parts, "-"));
  }

  const Environment& environment_;
  const Launcher& launcher_;
  std::vector<std::string> violations_;
};

}  // namespace

Environment process_environment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::optional<WorkerPlace> worker_place(const Environment& environment) {
  const Environment plain = with_plain_slurm(environment);
  const auto is_set = [&plain](const char* name) { return plain.contains(name); };
  const std::vector<Launcher> all = launchers();
  auto found = std::ranges::find_if(
      all, [&](const Launcher& l) { return std::ranges::all_of(l.numbers(), is_set); });
  if (found == all.end())
    found = std::ranges::find_if(
        all, [&](const Launcher& l) { return std::ranges::any_of(l.numbers(), is_set); });
  if (found == all.end()) return std::nullopt;
  return PlaceReader(plain, *found).read();
}

Environment variables_of(const WorkerPlace& place) {
  const Launcher own = own_launcher();
  return {{own.rank, std::to_string(place.rank)},
          {own.world, std::to_string(place.world)},
          {own.local_rank, std::to_string(place.local_rank)},
          {own.local_world, std::to_string(place.local_world)},
          {kStore, place.store},
          {kRunId, place.run_id}};
}

}  // namespace trainyard
