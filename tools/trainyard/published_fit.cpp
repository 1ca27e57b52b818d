#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

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

void put_number(PublishedRun& run, const std::string& key, std::int64_t value) {
  run.keys[key] = std::to_string(value);
}

// "8 a stage": in units of pipeline stages.
void fill_batch(PublishedRun& run) {
  const auto found = run.keys.find("batch.global_sequences");
  if (found == run.keys.end() || !found->second.ends_with(" a stage")) return;
  put_number(run, found->first,
             std::atoll(found->second.c_str()) * run.number("parallel.pipeline", 1) *
                 run.number("parallel.data", 1) * run.number("batch.micro_sequences", 1));
}

// Interleaving runs whole rounds of micro-batches, every schedule whole micro-batches.
void round_batch(PublishedRun& run) {
  const std::int64_t batch = run.number("batch.global_sequences", 0);
  const bool rounds = run.number("parallel.virtual_stages", 1) > 1;
  const std::int64_t data = run.number("parallel.data", 1),
                     micro = run.number("batch.micro_sequences", 1);
  const std::int64_t step = data * micro * (rounds ? run.number("parallel.pipeline", 1) : 1);
  if (batch > 0 && batch < data * micro && run.skip.empty())
    run.skip = fmt::format("a batch of {} is less than a micro-batch of {} on each of {} replicas",
                           batch, micro, data);
  if (batch <= 0 || step <= 0 || batch % step == 0) return;
  const std::int64_t rounded = std::max<std::int64_t>(1, (batch + step / 2) / step) * step;
  put_number(run, "batch.global_sequences", rounded);
  run.batch_scale = static_cast<double>(batch) / static_cast<double>(rounded);
  run.notes += fmt::format("batch {} rounded to {}; ", batch, rounded);
}

// Layers that do not divide: one fewer in the first and last chunk where that makes it even, else
// the remainder in the first chunks.
void split_layers(PublishedRun& run) {
  const std::int64_t layers = run.number("model.layers", 0);
  const std::int64_t chunks = run.number("parallel.pipeline", 1) *
                              std::max<std::int64_t>(1, run.number("parallel.virtual_stages", 1));
  if (layers % chunks == 0 || run.keys.contains("parallel.layers_per_stage")) return;
  if (layers < chunks && layers + 2 != chunks) return void(run.skip = "fewer layers than chunks");
  const bool fewer_at_ends = (layers + 2) % chunks == 0;
  std::string split;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const bool end = chunk == 0 || chunk + 1 == chunks;
    const std::int64_t own = fewer_at_ends ? (layers + 2) / chunks - (end ? 1 : 0)
                                           : layers / chunks + (chunk < layers % chunks ? 1 : 0);
    split += fmt::format("{}{}", chunk == 0 ? "" : ",", own);
  }
  run.keys["parallel.layers_per_stage"] = "[" + split + "]";
}

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

void finish_run(PublishedRun& run) {
  fill_batch(run);
  round_batch(run);
  split_layers(run);
}

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
