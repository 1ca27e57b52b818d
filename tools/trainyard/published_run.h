#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/config/job.h"
#include "tools/trainyard/assumptions.h"
#include "tools/trainyard/csv_read.h"

namespace trainyard {

// A published training run as a scenario: what the table tells, then what the rules assume.
struct PublishedRun {
  std::map<std::string, std::string> keys;  // scenario keys and their values
  double batch_scale = 1;  // sequences published over those simulated, where they do not divide
  std::string notes;       // what was rounded
  std::string skip;        // not empty: cannot be modelled, for this reason

  std::vector<std::string> sets() const;  // "key=value"
  // The number that stands for the key, or `otherwise`.
  std::int64_t number(const std::string& key, std::int64_t otherwise) const;
};

// Columns that the runs' tables must have, and tables that write them another way: vTrain's.
std::vector<std::string_view> published_run_columns();
std::vector<CsvDialect> published_run_dialects();

// Values that a rule may give besides those of the keys are filled in: "@column", what the row has
// there; "hidden/128"; "layers", as many chunks; "8 a stage", micro-batches of a replica in units
// of pipeline stages. "N or more" and "N or less" stay for choose_by_memory.
PublishedRun published_run(const CsvRow& row, const Assumed& assumed);

// Fills in what is to be chosen by memory: of "parallel.zero=0 or more" the smallest stage that
// fits with everything recomputed, of "training.recompute=none or more" the least that fits then,
// of "batch.micro_sequences=replica or less" the largest that fits with these.
void choose_by_memory(PublishedRun& run);

// Makes batch and layers divide as the layout needs; the last that is done to a run.
void finish_run(PublishedRun& run);

// What a run's table prints of its speed: the name of the quantity, its value, and what that is
// for a step of `iteration_s` seconds of `job`.
struct PublishedSpeed {
  enum class Kind : std::uint8_t { none, iteration, tokens, flops_with_recompute, flops, mfu };
  Kind kind = Kind::none;
  double value = 0;

  const char* name() const;
  double of(const Job& job, double iteration_s) const;
};

PublishedSpeed published_speed(const CsvRow& row);

}  // namespace trainyard
