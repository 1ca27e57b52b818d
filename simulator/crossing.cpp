#include "simulator/crossing.h"

#include <algorithm>

namespace trainyard {

Crossings::Crossings(const Scene& scene)
    : scene_(scene), lanes_(static_cast<std::size_t>(scene.layout.lanes)) {
  std::uint32_t count = 0;
  for (const CompiledProgram& program : scene.programs) {
    data_.push_back(count);
    const auto collectives = [&](Group group) {
      return static_cast<std::uint32_t>(
          program.collectives[static_cast<std::size_t>(group)].size());
    };
    count += collectives(Group::data);
    embedding_ = std::max(embedding_, collectives(Group::world));
    if (scene.flows.any()) embeddings_ = std::max(embeddings_, collectives(Group::embedding));
  }
  world_ = count;
  embedding_ += world_;
  const auto islands = static_cast<std::uint32_t>(scene_.layout.islands());
  const std::uint32_t all = embedding_ + islands * embeddings_;
  arrived_.resize(all);
  ends_.resize(all * lanes_);
  durations_.resize(all * lanes_);
  landed_.resize(all);
  last_.resize(all * lanes_);
}

std::uint32_t Crossings::id(const SharedOp& op, std::int32_t stage, std::int32_t island) const {
  std::uint32_t first = data_[static_cast<std::size_t>(stage)];
  if (op.group == Group::world) first = world_;
  if (op.group == Group::embedding)
    first = embedding_ + static_cast<std::uint32_t>(island) * embeddings_;
  return first + op.sequence;
}

std::uint32_t Crossings::expected(std::uint32_t id) const {
  const Layout& layout = scene_.layout;
  if (inside_an_island(id)) return 2;
  return static_cast<std::uint32_t>(layout.islands() * (id >= world_ ? layout.stages : 1));
}

bool Crossings::arrive(const SharedOp& op, std::int32_t stage, std::int32_t island,
                       std::span<const std::int64_t> ready) {
  const std::uint32_t at = id(op, stage, island);
  const auto latest = row(ends_, at);
  const auto last = row(last_, at);
  const bool first = arrived_[at]++ == 0;
  std::int32_t from = 0;  // the lane that counts for all lanes of a world collective
  if (op.group == Group::world)
    from = static_cast<std::int32_t>(std::max_element(ready.begin(), ready.end()) - ready.begin());
  for (std::size_t lane = 0; lane < lanes_; ++lane) {
    const std::int32_t source = op.group == Group::world ? from : static_cast<std::int32_t>(lane);
    const std::int64_t time = ready[static_cast<std::size_t>(source)];
    const Member member{stage, island, source};
    if (first || time > latest[lane] || (time == latest[lane] && member < last[lane])) {
      latest[lane] = time;
      last[lane] = member;
    }
  }
  if (arrived_[at] != expected(at)) return false;
  if (!travels(op, stage, island)) finish(op, stage);
  return true;
}

bool Crossings::travels(const SharedOp& op, std::int32_t stage, std::int32_t island) const {
  if (op.group != Group::data && op.group != Group::embedding) return false;
  const Coord coord = scene_.layout.coord(stage, op.group == Group::data ? 0 : island, 0);
  return scene_.flows.ring(op.collective, scene_.topology.shape(op.group, coord));
}

bool Crossings::land(std::uint32_t id, std::int32_t lane, std::int64_t at) {
  const auto of = static_cast<std::size_t>(lane);
  row(durations_, id)[of] = at - row(ends_, id)[of];
  row(ends_, id)[of] = at;
  if (++landed_[id] < lanes_) return false;
  arrived_[id] = kEnded;
  return true;
}

void Crossings::finish(const SharedOp& op, std::int32_t stage) {
  const std::uint32_t at = id(op, stage, 0);
  const auto ends = row(ends_, at);
  for (std::size_t lane = 0; lane < lanes_; ++lane) {
    const Coord coord = scene_.layout.coord(stage, 0, static_cast<std::int32_t>(lane));
    const std::int64_t duration =
        scene_.times.collective(op.collective, scene_.topology.shape(op.group, coord));
    row(durations_, at)[lane] = duration;
    ends[lane] += duration;
  }
  arrived_[at] = kEnded;
}

}  // namespace trainyard
