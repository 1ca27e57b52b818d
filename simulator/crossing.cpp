#include "simulator/crossing.h"

#include <algorithm>

namespace trainyard {

Crossings::Crossings(const Scene& scene)
    : scene_(scene), lanes_(static_cast<std::size_t>(scene.layout.lanes)) {
  std::uint32_t count = 0;
  for (std::int32_t i = 0; i < scene.layout.islands(); ++i) {
    if (i == 0 || !scene.layout.share(i - 1, i)) set_size_.push_back(0);
    set_of_.push_back(static_cast<std::uint32_t>(set_size_.size() - 1));
    ++set_size_.back();
  }
  for (const CompiledProgram& program : scene.programs) {
    data_.push_back(count);
    const auto collectives = [&](Group group) {
      return static_cast<std::uint32_t>(
          program.collectives[static_cast<std::size_t>(group)].size());
    };
    count += collectives(Group::data);
    contexts_.push_back(count);
    count += collectives(Group::context) * static_cast<std::uint32_t>(set_size_.size());
    inside_ = std::max(inside_, collectives(Group::world));
    if (!scene.flows.any()) continue;
    embeddings_ = std::max(embeddings_, collectives(Group::embedding));
    models_ = std::max(models_, collectives(Group::model));
  }
  world_ = count;
  inside_ += world_;
  const auto islands = static_cast<std::uint32_t>(scene_.layout.islands());
  const std::uint32_t all = inside_ + islands * (embeddings_ + models_);
  arrived_.resize(all);
  ends_.resize(all * lanes_);
  durations_.resize(all * lanes_);
  landed_.resize(all);
  last_.resize(all * lanes_);
}

std::uint32_t Crossings::id(const SharedOp& op, std::int32_t stage, std::int32_t island) const {
  const std::uint32_t of_island =
      inside_ + static_cast<std::uint32_t>(island) * (embeddings_ + models_);
  switch (op.group) {
    case Group::context: {
      const auto s = static_cast<std::size_t>(stage);
      const auto each = scene_.programs[s].collectives[static_cast<std::size_t>(op.group)].size();
      return contexts_[s] +
             set_of_[static_cast<std::size_t>(island)] * static_cast<std::uint32_t>(each) +
             op.sequence;
    }
    case Group::world:
      return world_ + op.sequence;
    case Group::embedding:
      return of_island + op.sequence;
    case Group::model:
      return of_island + embeddings_ + op.sequence;
    default:
      return data_[static_cast<std::size_t>(stage)] + op.sequence;
  }
}

std::uint32_t Crossings::expected(const SharedOp& op, std::int32_t island) const {
  const auto stages = static_cast<std::uint32_t>(scene_.layout.stages);
  const auto islands = static_cast<std::uint32_t>(scene_.layout.islands());
  switch (op.group) {
    case Group::world:
      return islands * stages;
    case Group::context:
      return set_size_[set_of_[static_cast<std::size_t>(island)]];
    case Group::embedding:
      return 2;
    case Group::model:
      return stages;
    default:
      return islands;
  }
}

bool Crossings::arrive(const SharedOp& op, std::int32_t stage, std::int32_t island,
                       std::span<const std::int64_t> ready) {
  const std::uint32_t at = id(op, stage, island);
  const auto latest = row(ends_, at);
  const auto last = row(last_, at);
  const bool first = arrived_[at]++ == 0;
  std::int32_t from = 0;  // the lane that counts for all lanes
  if (spans_lanes(op.group))
    from = static_cast<std::int32_t>(std::max_element(ready.begin(), ready.end()) - ready.begin());
  for (std::size_t lane = 0; lane < lanes_; ++lane) {
    const std::int32_t source = spans_lanes(op.group) ? from : static_cast<std::int32_t>(lane);
    const std::int64_t time = ready[static_cast<std::size_t>(source)];
    const Member member{stage, island, source};
    if (first || time > latest[lane] || (time == latest[lane] && member < last[lane])) {
      latest[lane] = time;
      last[lane] = member;
    }
  }
  if (arrived_[at] != expected(op, island)) return false;
  if (!travels(op, stage, island)) finish(op, stage, island);
  return true;
}

bool Crossings::travels(const SharedOp& op, std::int32_t stage, std::int32_t island) const {
  if (op.group == Group::tensor) return false;
  const bool of_all = op.group == Group::data || op.group == Group::world;
  const Coord coord = scene_.layout.coord(stage, of_all ? 0 : island, 0);
  return scene_.flows.collective(op.collective, scene_.topology.shape(op.group, coord));
}

bool Crossings::land(const SharedOp& op, std::uint32_t id, std::int32_t lane, std::int64_t at) {
  const auto enter = [&](std::size_t of) {
    row(durations_, id)[of] = at - row(ends_, id)[of];
    row(ends_, id)[of] = at;
    ++landed_[id];
  };
  if (spans_lanes(op.group))
    for (std::size_t of = 0; of < lanes_; ++of) enter(of);
  else
    enter(static_cast<std::size_t>(lane));
  if (landed_[id] < lanes_) return false;
  arrived_[id] = kEnded;
  return true;
}

void Crossings::finish(const SharedOp& op, std::int32_t stage, std::int32_t island) {
  const std::uint32_t at = id(op, stage, island);
  const auto ends = row(ends_, at);
  for (std::size_t lane = 0; lane < lanes_; ++lane) {
    const Coord coord = scene_.layout.coord(stage, island, static_cast<std::int32_t>(lane));
    const std::int64_t duration =
        scene_.times.collective(op.collective, scene_.topology.shape(op.group, coord));
    row(durations_, at)[lane] = duration;
    ends[lane] += duration;
  }
  arrived_[at] = kEnded;
}

}  // namespace trainyard
