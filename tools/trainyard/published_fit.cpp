#include <fmt/core.h>

#include <algorithm>

#include "core/config/load.h"
#include "core/error.h"
#include "tools/trainyard/inputs.h"
#include "tools/trainyard/published_run.h"
#include "tools/trainyard/run.h"

namespace trainyard {
namespace {

const char* const kZero = "parallel.zero";
const char* const kRecompute = "training.recompute";
const char* const kMicro = "batch.micro_sequences";

// The values from the one named on, where the key's is "VALUE or more".
std::vector<std::string> from_named(const PublishedRun& run, const std::string& key,
                                    std::vector<std::string> values) {
  const auto found = run.keys.find(key);
  const std::string_view open = " or more";
  if (found == run.keys.end() || !found->second.ends_with(open)) return {};
  const std::string first = found->second.substr(0, found->second.size() - open.size());
  values.erase(values.begin(), std::ranges::find(values, first));
  return values;
}

// Micro-batches that divide the sequences of a replica, largest first; at most 8 where the batch is
// theirs, not told.
std::vector<std::string> micro_batches(const PublishedRun& run) {
  const auto found = run.keys.find(kMicro);
  if (found == run.keys.end() || found->second != "replica or less") return {};
  const auto batch = run.keys.find("batch.global_sequences");
  if (batch == run.keys.end() || batch->second.ends_with(" a stage")) return {"8", "4", "2", "1"};
  const std::int64_t replica = std::max<std::int64_t>(
      1, run.number("batch.global_sequences", 1) / run.number("parallel.data", 1));
  std::vector<std::string> out;
  for (std::int64_t size = replica; size >= 1; --size)
    if (replica % size == 0) out.push_back(std::to_string(size));
  return out;
}

bool fits(PublishedRun run) {
  finish_run(run);
  if (!run.skip.empty()) return false;
  try {
    return memory_shortages(plan_job(load_job({}, run.sets(), scenario_root()))).empty();
  } catch (const ConfigError&) {
    return false;  // such a job there is not
  }
}

// The first of the values with which the run fits, else the last.
void choose(PublishedRun& run, const std::string& key, const std::vector<std::string>& values) {
  if (values.empty()) return;
  for (const std::string& value : values) {
    run.keys[key] = value;
    if (fits(run)) break;
  }
  run.notes += fmt::format("{}={} by memory; ", key, run.keys[key]);
}

}  // namespace

void choose_by_memory(PublishedRun& run) {
  const std::vector<std::string> stages = from_named(run, kZero, {"0", "1", "2", "3"}),
                                 kinds = from_named(run, kRecompute, {"none", "selective", "full"}),
                                 sizes = micro_batches(run);
  if (!sizes.empty()) run.keys[kMicro] = "1";
  if (!kinds.empty()) run.keys[kRecompute] = "full";
  choose(run, kZero, stages);
  choose(run, kRecompute, kinds);
  choose(run, kMicro, sizes);
}

}  // namespace trainyard
