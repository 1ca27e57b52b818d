#include <fmt/format.h>

#include "core/config/rules.h"

namespace trainyard {
namespace {

void check_window(const Job& job, Report& report) {
  if (!report.usable({"model.window", "batch.sequence_length"})) return;
  if (job.model.window <= job.batch.sequence_length) return;
  report.conflict(
      "model.window",
      fmt::format("window {} is longer than sequence_length {}; nearest: {}, or 0 for "
                  "full attention",
                  job.model.window, job.batch.sequence_length, job.batch.sequence_length));
}

void check_kv_heads(const Job& job, Report& report) {
  if (!report.usable({"model.heads", "model.kv_heads"})) return;
  const Model& m = job.model;
  if (m.heads % m.kv_heads != 0)
    report.conflict("model.kv_heads",
                    fmt::format("kv_heads {} do not divide heads {}; nearest: {}", m.kv_heads,
                                m.heads, nearest_divisors(m.kv_heads, m.heads)));
}

void check_rope(const Job& job, Report& report) {
  if (!report.usable({"model.position", "model.head_dim"})) return;
  if (job.model.position == Position::rope && job.model.head_dim % 2 != 0)
    report.conflict("model.position",
                    fmt::format("rope rotates pairs, so head_dim {} must be even; nearest: {}",
                                job.model.head_dim, nearest_multiples(job.model.head_dim, 2)));
}

}  // namespace

void check_model(const Job& job, Report& report) {
  check_window(job, report);
  check_kv_heads(job, report);
  check_rope(job, report);
}

}  // namespace trainyard
