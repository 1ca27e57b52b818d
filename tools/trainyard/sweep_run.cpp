#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/error.h"
#include "tools/trainyard/progress.h"
#include "tools/trainyard/run.h"
#include "tools/trainyard/sweep.h"

namespace trainyard {
namespace {

std::string first_of(const std::vector<std::string>& sentences) {
  if (sentences.size() < 2) return sentences.empty() ? "" : sentences[0];
  return fmt::format("{} (and {} more)", sentences[0], sentences.size() - 1);
}

void fill(const SimReport& report, Layout& layout) {
  layout.gpus = report.planned.job.gpus();
  layout.iteration = report.result.iteration;
  layout.tokens_per_s = report.throughput.tokens_per_s;
  layout.mfu = report.throughput.mfu;
  layout.training_days = report.throughput.training_days;
}

Layout run_point(const Inputs& inputs, const Grid& grid, std::size_t point, bool allow_oom) {
  Layout layout;
  layout.values = grid.at(point);
  std::vector<std::string> sets;
  for (std::size_t i = 0; i < layout.values.size(); ++i)
    sets.push_back(grid.axes()[i].key + "=" + layout.values[i]);
  try {
    PlannedJob planned = plan_job(load(inputs, sets));
    layout.peak_memory = peak_memory(planned);
    if (!allow_oom) layout.reason = first_of(memory_shortages(planned));
    if (layout.reason.empty()) fill(simulate_planned(std::move(planned), {}), layout);
  } catch (const ConfigError& error) {
    layout.reason = first_of(error.violations());
  } catch (const std::exception& error) {
    layout.reason = error.what();
    layout.broken = true;
  }
  return layout;
}

}  // namespace

std::vector<Layout> run_grid(const Inputs& inputs, const Grid& grid, bool allow_oom) {
  std::vector<Layout> layouts(grid.size());
  std::atomic<std::size_t> next = 0, done = 0;
  const auto work = [&] {
    for (std::size_t point; (point = next++) < layouts.size(); ++done)
      layouts[point] = run_point(inputs, grid, point, allow_oom);
  };
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t threads = inputs.threads > 0 ? inputs.threads : cores;
  Progress progress("layouts simulated:", layouts.size());
  std::vector<std::jthread> workers;
  for (std::size_t i = 0; i < std::min(threads, layouts.size()); ++i) workers.emplace_back(work);
  while (done < layouts.size()) {
    progress.show(done);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return layouts;
}

}  // namespace trainyard
