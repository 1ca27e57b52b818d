#include "backends/common/training_setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/common/patience.h"
#include "backends/common/rendezvous.h"
#include "core/error.h"
#include "core/plan/plan.h"

namespace trainyard {
namespace {

bool reads_tokens(const Program& program) {
  for (const BufferType& type : program.buffer_types)
    if (type.name == "tokens") return true;
  return false;
}

}  // namespace

Plans make_plans(const Job& job) {
  Plans plans;
  plans.training = plan(job);
  if (job.data.validation > 0) plans.evaluation = plan_evaluation(job);
  return plans;
}

Bytes Plans::memory(std::int32_t stage) const {
  Bytes most = training.by_stage[static_cast<std::size_t>(stage)]->arena_bytes;
  if (!evaluation.by_stage.empty())
    most = std::max(most, evaluation.by_stage[static_cast<std::size_t>(stage)]->arena_bytes);
  return most;
}

Surroundings meet_others(const Job& job, const TrainingOptions& options, const Plans& plans) {
  const Mesh mesh = job.mesh();
  std::vector<Arrival> arrivals{
      {host_identity(), fmt::format("{:016x}", plans.training.hash), allowed_processors()}};
  if (mesh.size() > 1) {
    check(options.store != nullptr, "{} ranks have no store to meet in", mesh.size());
    arrivals = meet(*options.store, options.rank, mesh.size(), arrivals[0], timeout_of(job));
  }
  const Arrival& own = arrivals[static_cast<std::size_t>(index(options.rank))];
  Surroundings found;
  found.local_ranks = 0;
  found.node.first_rank = -1;
  found.processors = own.processors;
  for (std::int32_t r = 0; r < mesh.size(); ++r) {
    const Arrival& other = arrivals[static_cast<std::size_t>(r)];
    if (other.program != own.program)
      throw ConfigError(fmt::format(
          "rank {} is about to run program {}, rank {} program {}: all ranks must be given the "
          "same job",
          index(options.rank), own.program, r, other.program));
    if (other.host != own.host) {
      found.one_host = false;
      continue;
    }
    if (RankId(r) == options.rank) found.place = found.local_ranks;
    ++found.local_ranks;
    found.all_processors &= other.processors == own.processors;
    const std::int32_t stage = mesh.coord(RankId(r))[Axis::pipeline];
    if (!reads_tokens(*plans.training.by_stage[stage])) continue;
    if (found.node.first_rank < 0) found.node.first_rank = r;
    found.node.reading_ranks.push_back(RankId(r));
  }
  return found;
}

RealBackendOptions backend_options(const Job& job, const TrainingOptions& options,
                                   const Surroundings& around, Bytes memory) {
  RealBackendOptions out;
  out.rank = options.rank;
  out.store = options.store;
  out.one_host = around.one_host;
  out.place = around.place;
  out.interface = options.interface;
  out.memory = memory;
  // A launcher that bound the ranks to processors has shared them out already.
  const std::int32_t sharing = around.all_processors ? around.local_ranks : 1;
  const auto processors = static_cast<std::int32_t>(around.processors.size());
  out.threads = job.running.threads > 0 ? job.running.threads : std::max(1, processors / sharing);
  if (job.running.bind_to_cores && around.all_processors)
    out.processors = own_processors(around.processors, around.place, sharing, out.threads);
  return out;
}

}  // namespace trainyard
