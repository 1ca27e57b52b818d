#include <fmt/format.h>

#include "core/config/rules.h"

namespace trainyard {
namespace {

void check_measured(const Job& job, Report& report) {
  if (!report.usable({"parallel.pipeline", "parallel.virtual_stages"})) return;
  const struct {
    std::string_view key;
    const std::vector<double>& times;
  } lists[] = {{"measured.forward_ms", job.measured.forward_ms},
               {"measured.backward_ms", job.measured.backward_ms},
               {"measured.weight_grad_ms", job.measured.weight_grad_ms}};
  for (const auto& list : lists) {
    const auto count = static_cast<std::int64_t>(list.times.size());
    if (count == 0 && report.given(list.key))
      report.conflict(list.key, "lists no time; leave the key out");
    if (count == 0 || count == 1 || count == job.stages() || count == job.chunks()) continue;
    if (report.usable({list.key}))
      report.conflict(list.key, fmt::format("lists {} times; legal: 1, {} (one a stage) or {} (one "
                                            "a stage and chunk)",
                                            count, job.stages(), job.chunks()));
  }
  if (job.measured.forward_ms.empty() != job.measured.backward_ms.empty() &&
      report.usable({"measured.forward_ms", "measured.backward_ms"}))
    report.conflict(
        job.measured.forward_ms.empty() ? "measured.backward_ms" : "measured.forward_ms",
        "forward_ms and backward_ms stand in together; give both or none");
}

void check_faults(const Job& job, Report& report) {
  if (!report.usable({"faults.list", "parallel.data", "cluster.nodes"})) return;
  for (const Fault& fault : job.faults)
    if (const std::string problem = fault_problem(fault, job); !problem.empty())
      report.conflict("faults.list", problem);
}

void check_optimization(const Job& job, Report& report) {
  const Optimization& o = job.optimization;
  if (report.usable({"training.learning_rate", "training.min_learning_rate"}) &&
      o.min_learning_rate > o.learning_rate)
    report.conflict(
        "training.min_learning_rate",
        fmt::format("is above learning_rate {}; at most that is legal", o.learning_rate));
  if (report.usable({"training.steps", "training.warmup_steps"}) && o.steps > 0 &&
      o.warmup_steps > o.steps)
    report.conflict("training.warmup_steps",
                    fmt::format("is more than the {} steps of the training", o.steps));
}

}  // namespace

void check_run(const Job& job, Report& report) {
  check_measured(job, report);
  check_faults(job, report);
  check_optimization(job, report);
}

}  // namespace trainyard
