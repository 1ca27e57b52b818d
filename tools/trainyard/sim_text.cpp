#include <fmt/core.h>

#include "core/report/text.h"
#include "tools/trainyard/sim_report.h"

namespace trainyard {
namespace {

std::string headline(const Job& job) {
  const Parallel& p = job.parallel;
  std::string out = fmt::format("{}: {} x {}, tensor {}, pipeline {}", job.name,
                                grouped(job.gpus()), job.cluster.gpu.name, p.tensor, p.pipeline);
  if (p.virtual_stages > 1) out += fmt::format(" x {} virtual", p.virtual_stages);
  return out + fmt::format(", data {}, batch {} x {} tokens\n", p.data,
                           grouped(job.batch.global_sequences), grouped(job.batch.sequence_length));
}

std::string figures(const SimReport& report) {
  const Job& job = report.planned.job;
  const Throughput& got = report.throughput;
  const double iteration = to_seconds(report.result.iteration);
  const TimeUnit unit(iteration);
  TextTable table;
  const Interval& likely = report.interval;
  // " (from-to)": where four of five such runs should fall.
  const auto between = [&](const std::string& low, const std::string& high) {
    return likely.low_s < likely.high_s ? fmt::format(" ({}-{})", low, high) : "";
  };
  table.row({"iteration time", unit.text(iteration) + " " + unit.name() +
                                   between(unit.text(likely.low_s), unit.text(likely.high_s))});
  table.row({"tokens/s", grouped(static_cast<std::int64_t>(got.tokens_per_s))});
  const auto mfu = [&](double seconds) { return percent(got.mfu * iteration / seconds); };
  table.row({"MFU", mfu(iteration) + " %" + between(mfu(likely.high_s), mfu(likely.low_s))});
  table.row({"HFU", percent(got.hfu) + " %"});
  if (job.training.total_tokens > 0)
    table.row({fmt::format("training of {} G tokens",
                           grouped(static_cast<std::int64_t>(job.training.total_tokens / 1e9))),
               fmt::format("{:.2f} days", got.training_days)});
  table.row({"peak memory", gib(peak_memory(report.planned)) + " GiB"});
  return table.text();
}

struct Loss {
  const char* name;
  double seconds;
};

// Everything between peak FLOP/s and the model's FLOPs; sums to (1 - MFU) of the iteration.
std::vector<Loss> losses(const SimReport& report, const ComputeParts& parts) {
  const auto spent = [&](Cause cause) {
    return to_seconds(report.result.breakdown[static_cast<int>(cause)]);
  };
  return {{"kernels below peak", parts.inefficiency},
          {"recompute", parts.recompute},
          {"padding less masked work", parts.mask_padding},
          {"uneven stages", parts.uneven},
          {"pipeline bubble", spent(Cause::bubble)},
          {"exposed tensor communication", spent(Cause::tensor_comm)},
          {"exposed context communication", spent(Cause::context_comm)},
          {"exposed pipeline communication", spent(Cause::pipeline_comm)},
          {"exposed data communication", spent(Cause::data_comm)},
          {"optimizer", spent(Cause::optimizer)},
          {"data stalls", spent(Cause::data_stall)},
          {"stragglers", spent(Cause::straggler)},
          {"other (launches, host pauses)", spent(Cause::other)}};
}

std::string waterfall(const SimReport& report) {
  const double total = to_seconds(report.result.iteration);
  const ComputeParts parts =
      split_compute(report.planned.job, report.planned.programs, report.result.bounding_stage,
                    report.result.breakdown[static_cast<int>(Cause::compute)]);
  const TimeUnit unit(total);
  TextTable table;
  table.row({"from peak FLOP/s to MFU", unit.name(), "%", "left %"});
  table.row({"peak FLOP/s", unit.text(total), percent(1), percent(1)});
  double left = total;
  for (const Loss& loss : losses(report, parts)) {
    left -= loss.seconds;
    table.row({std::string("- ") + loss.name, unit.text(loss.seconds),
               percent(loss.seconds / total), percent(left / total)});
  }
  table.row({"= the model's FLOPs (MFU)", unit.text(parts.model), percent(parts.model / total)});
  return table.text();
}

}  // namespace

std::string sim_text(const SimReport& report) {
  const PlannedJob& planned = report.planned;
  std::string out = headline(planned.job) + "\n" + figures(report) + "\n" + waterfall(report) +
                    "\n" + memory_table(planned) + "\n";
  out += fmt::format("network {}, program {:016x}, seed {}\n", planned.job.network.model,
                     planned.programs.hash, planned.job.seed);
  if (const auto& use = report.result.network; use && use->stalls > 0)
    out += fmt::format("{} stalls of flows whose packets were lost, the longest {:.3f} s\n",
                       grouped(use->stalls), to_seconds(use->longest_stall));
  for (const std::string& warning : report.warnings) out += "warning: " + warning + "\n";
  return out;
}

}  // namespace trainyard
