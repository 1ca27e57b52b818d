#include "core/report/throughput.h"
#include "tools/trainyard/published_run.h"

namespace trainyard {

const char* PublishedSpeed::name() const {
  switch (kind) {
    case Kind::none:
      return "";
    case Kind::iteration:
      return "iteration_time_s";
    case Kind::tokens:
      return "tokens_per_s";
    case Kind::mfu:
      return "mfu_pct";
    case Kind::flops:
    case Kind::flops_with_recompute:
      return "tflops_per_gpu";
  }
  return "";
}

double PublishedSpeed::of(const Job& job, double iteration_s) const {
  const Throughput speed = throughput(job, seconds(iteration_s), 0);
  const Model& m = job.model;
  const auto l = static_cast<double>(m.layers), h = static_cast<double>(m.hidden),
             s = static_cast<double>(job.batch.sequence_length), v = static_cast<double>(m.vocab);
  switch (kind) {
    case Kind::none:
      return 0;
    case Kind::iteration:
      return iteration_s;
    case Kind::tokens:
      return speed.tokens_per_s;
    case Kind::mfu:
      return speed.mfu * 100;
    case Kind::flops:
      return speed.tokens_per_s * speed.model_flops_per_token / job.gpus() * 1e-12;
    case Kind::flops_with_recompute:  // arXiv 2104.04473, equation 3
      return speed.tokens_per_s * 96 * l * h * h * (1 + s / (6 * h) + v / (16 * l * h)) /
             job.gpus() * 1e-12;
  }
  return 0;
}

PublishedSpeed published_speed(const CsvRow& row) {
  using Kind = PublishedSpeed::Kind;
  const std::string& formula = row.text("flops_formula");
  const auto says = [&](std::string_view part) { return formula.find(part) != std::string::npos; };
  const Kind flops = says("N96")        ? Kind::flops_with_recompute
                     : says("12Bslh^2") ? Kind::flops
                                        : Kind::none;
  const struct {
    std::string_view column;
    Kind kind;
  } columns[] = {{"iter_time_s", Kind::iteration},
                 {"tokens_per_s", Kind::tokens},
                 {"tflops_per_gpu", flops},
                 {"mfu_pct", Kind::mfu}};
  for (const auto& [column, kind] : columns)
    if (const auto value = row.positive(column); value && kind != Kind::none) {
      if (kind == Kind::mfu && *value > 100) row.violation(column, "is more than 100 %");
      return {kind, *value};
    }
  return {};
}

}  // namespace trainyard
