#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "core/config/load.h"
#include "core/error.h"
#include "tools/trainyard/assumptions.h"
#include "tools/trainyard/inputs.h"
#include "tools/trainyard/interval.h"
#include "tools/trainyard/progress.h"
#include "tools/trainyard/published_run.h"
#include "tools/trainyard/run.h"
#include "tools/trainyard/validate.h"

namespace trainyard {
namespace {

// A row that waits for its prediction.
struct Open {
  PublishedRun run;
  PublishedSpeed speed;
};

// What a source leaves out (micro-batches, kernels, versions), as a relative standard deviation.
constexpr double kUntold = 0.05;

void predict(Open& open, ValidatedRow& row) {
  try {
    choose_by_memory(open.run);
    finish_run(open.run);
    row.assumed = open.run.notes + row.assumed;
    row.skipped = open.run.skip;
    if (!row.skipped.empty()) return;
    const Job job = load_job({}, open.run.sets(), scenario_root());
    PlannedJob planned = plan_job(job);
    if (!memory_shortages(planned).empty()) row.assumed += "; needs more memory than the GPU has";
    const SimReport report = simulate_planned(std::move(planned), {});
    const double iteration_s = to_seconds(report.result.iteration);
    const Interval interval = step_interval(report.planned, report.result, kIntervalDraws, kUntold);
    // Speeds count the simulated batch; a time is scaled to the published one.
    const bool time = open.speed.kind == PublishedSpeed::Kind::iteration;
    const auto value = [&](double seconds) {
      return time ? seconds * open.run.batch_scale : open.speed.of(job, seconds);
    };
    row.predicted = value(iteration_s);
    row.low = value(time ? interval.low_s : interval.high_s);
    row.high = value(time ? interval.high_s : interval.low_s);
    for (int cause = 0; cause < kCauses; ++cause)
      row.breakdown_s.emplace_back(cause_name(static_cast<Cause>(cause)),
                                   to_seconds(report.result.breakdown[cause]));
  } catch (const ConfigError& error) {
    row.skipped = why_refused(error);
  } catch (const std::exception& error) {
    row.skipped = fmt::format("failed: {}", error.what());
  }
}

// Work in the order of the rows, each row on one thread: the same result with any number.
void predict_all(std::vector<Open>& open, std::vector<ValidatedRow>& rows, int threads) {
  std::atomic<std::size_t> next = 0, done = 0;
  const auto work = [&] {
    for (std::size_t at; (at = next++) < rows.size(); ++done)
      if (rows[at].skipped.empty()) predict(open[at], rows[at]);
  };
  const auto cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  Progress progress("runs predicted:", rows.size());
  std::vector<std::jthread> workers;
  const int most = std::max(1, static_cast<int>(std::min<std::size_t>(rows.size(), 1024)));
  for (int i = 0; i < std::min(most, threads > 0 ? threads : cores); ++i)
    workers.emplace_back(work);
  while (done < rows.size()) {
    progress.show(done);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

std::vector<ValidatedRow> validate_runs(const ValidationFiles& files, int threads,
                                        bool source_rules) {
  const CsvTable table(files.table, published_run_columns(), published_run_dialects());
  const Assumptions assumptions(files.assumptions, "runs", table);
  std::vector<ValidatedRow> rows;
  std::vector<Open> open;
  for (const CsvRow& row : table.rows()) {
    const Assumed assumed =
        source_rules ? assumptions.of(row) : assumptions.without_source_rules(row);
    ValidatedRow& out = rows.emplace_back();
    Open& waiting =
        open.emplace_back(published_run(source_rules ? row : row.without(kSourceColumns), assumed),
                          published_speed(row));
    out.id = row.text("id").empty() ? fmt::format("line {}", row.line()) : row.text("id");
    out.families = {assumed.family.empty() ? row.text("table") : assumed.family};
    if (!row.defect().empty()) out.families = {kTornFamily};
    out.quantity = waiting.speed.name();
    if (waiting.speed.kind == PublishedSpeed::Kind::none && waiting.run.skip.empty())
      waiting.run.skip = "no speed that can be compared is published";
    else if (waiting.speed.kind != PublishedSpeed::Kind::none)
      out.published = waiting.speed.value;
    out.assumed = fmt::format("{}", fmt::join(assumed.defaults, ", "));
    out.assumed += fmt::format("{}{}", out.assumed.empty() || assumed.sets.empty() ? "" : ", ",
                               fmt::join(assumed.sets, ", "));
    out.skipped = waiting.run.skip;
  }
  table.refuse_violations();
  predict_all(open, rows, threads);
  return rows;
}

}  // namespace trainyard
