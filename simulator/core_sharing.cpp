#include "simulator/core_sharing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/mesh/core_share.h"
#include "simulator/scene.h"

namespace trainyard {
namespace {

// Unlike Island, which runs each gang ahead as far as it gets, this goes from event to event: how
// fast anybody works depends on what all others of the node do at that very moment.
class CoreSharing {
 public:
  CoreSharing(const Scene& scene, const SharedCores& shared) : scene_(scene), shared_(shared) {
    const Mesh& mesh = scene.topology.mesh();
    ranks_.resize(static_cast<std::size_t>(mesh.size()));
    const Placement& placement = scene.topology.placement();
    std::map<NodeId, std::int32_t> of_node, places;
    std::map<std::pair<NodeId, std::int32_t>, std::size_t> pools;  // by node and first core
    for (std::int32_t r = 0; r < mesh.size(); ++r) ++of_node[placement.node(RankId(r))];
    for (std::int32_t r = 0; r < mesh.size(); ++r) {
      const NodeId node = placement.node(RankId(r));
      const CoreShare share = share_of(places[node]++, of_node[node]);
      const auto [pool, is_new] = pools.try_emplace({node, share.first}, pools_.size());
      if (is_new) pools_.push_back({share.count, 0});
      open(RankId(r), pool->second);
    }
  }

  std::vector<std::vector<std::int64_t>> run() {
    while (true) {
      while (!awake_.empty()) {
        const std::size_t rank = awake_.back();
        awake_.pop_back();
        start_what_can(rank);
      }
      if (active_.empty()) break;  // all is done, or stuck as the executor will report
      pass_time();
    }
    std::vector<std::vector<std::int64_t>> durations;
    for (Rank& rank : ranks_) durations.push_back(std::move(rank.durations));
    return durations;
  }

 private:
  enum class State : std::uint8_t { idle, issuing, working, resting, posted };
  struct StreamState {
    std::uint32_t step = kNone;  // the one that has not ended
    State state = State::idle;
    std::int64_t start = 0, until = 0;  // until: of a rest
    double work = 0;                    // left, ns on cores of its own
    std::uint32_t open = 0;             // transfers still to end
  };
  struct Rank {
    const CompiledProgram* program = nullptr;
    Coord coord;
    std::size_t pool = 0;
    const RankDisturbance* disturbance = nullptr;
    std::array<StreamState, kStreams> streams;
    std::vector<std::int64_t> ends, durations;  // of each step
    std::uint32_t tensor_calls = 0;
  };
  struct Active {
    std::size_t rank, stream;
  };

  // Cores that some ranks of a node work with, and how many they ask for now.
  struct Pool {
    std::int32_t cores = 0;
    double demand = 0;
    double speed() const { return std::min(1.0, cores / demand); }
  };

  CoreShare share_of(std::int32_t place, std::int32_t ranks) const {
    if (!shared_.bound) return {0, shared_.cores};
    return core_share(place, ranks, shared_.cores, shared_.threads);
  }

  void open(RankId id, std::size_t pool) {
    const Mesh& mesh = scene_.topology.mesh();
    Rank& rank = ranks_[static_cast<std::size_t>(index(id))];
    rank.coord = mesh.coord(id);
    rank.program = &scene_.program(rank.coord[Axis::pipeline]);
    rank.pool = pool;
    rank.disturbance = scene_.disturbances.of(id);
    rank.ends.assign(rank.program->steps.size(), -1);
    rank.durations.assign(rank.program->steps.size(), 0);
    for (std::size_t s = 0; s < kStreams; ++s) rank.streams[s].step = rank.program->first[s];
    awake_.push_back(static_cast<std::size_t>(index(id)));
  }

  // When the step could start; -1: something it waits for has not ended.
  std::int64_t ready(const Rank& rank, const Step& step) const {
    std::int64_t latest = rank.disturbance == nullptr ? 0 : rank.disturbance->late().value;
    for (std::size_t k = 0; k < 3; ++k) {
      if (step.wait_streams[k] == kAlways) continue;
      const std::int64_t end = rank.ends[step.waits[k]];
      if (end < 0) return -1;
      if (k == 2) latest = end;
    }
    return std::max(now_, latest + step.issue_delay);
  }

  void start_what_can(std::size_t r) {
    Rank& rank = ranks_[r];
    for (std::size_t s = 0; s < kStreams; ++s) {
      StreamState& stream = rank.streams[s];
      if (stream.state != State::idle || stream.step == kNone) continue;
      const Step& step = rank.program->steps[stream.step];
      const std::int64_t at = ready(rank, step);
      if (at < 0) continue;
      if (at == now_)
        start(r, s);
      else
        begin({r, s}, State::issuing, at);
    }
  }

  void begin(const Active& a, State state, std::int64_t until = 0) {
    StreamState& stream = ranks_[a.rank].streams[a.stream];
    if (stream.state == State::idle) active_.push_back(a);
    stream.state = state;
    stream.until = until;
  }

  void start(std::size_t r, std::size_t s) {
    Rank& rank = ranks_[r];
    StreamState& stream = rank.streams[s];
    const Step& step = rank.program->steps[stream.step];
    stream.start = now_;
    switch (step.kind) {
      case StepKind::kernel:
      case StepKind::gemm:
        return work(rank, r, s);
      case StepKind::collective:
        return meet(r, s, {Group::tensor, rank.tensor_calls++, step.detail});
      case StepKind::shared: {
        const SharedOp& op = rank.program->shared[step.detail];
        if (op.transfers > 0) return post(r, s, op);
        const bool tensor = op.group == Group::tensor;
        return meet(r, s, {op.group, tensor ? rank.tensor_calls++ : op.sequence, op.collective});
      }
      default:
        begin({r, s}, State::resting, now_ + step.duration);
    }
  }

  void work(Rank& rank, std::size_t r, std::size_t s) {
    StreamState& stream = rank.streams[s];
    const Step& step = rank.program->steps[stream.step];
    std::int64_t work = step.duration;
    if (rank.disturbance != nullptr)
      work = rank.disturbance->end(now_, work, rank.program->instr_of[stream.step]) - now_;
    begin({r, s}, State::working);
    stream.work = static_cast<double>(work);
    pools_[rank.pool].demand += cores_of(s);
  }

  double cores_of(std::size_t stream) const {
    const bool kernels = stream == static_cast<std::size_t>(Stream::compute);
    return kernels ? shared_.threads : 1;
  }

  struct Call {
    Group group;
    std::uint32_t sequence, collective;
  };
  void meet(std::size_t r, std::size_t s, const Call& call) {
    const Mesh& mesh = scene_.topology.mesh();
    const auto members = mesh.members(call.group, RankId(static_cast<std::int32_t>(r)));
    auto& meeting = meetings_[{call.group, members.front(), call.sequence}];
    begin({r, s}, State::posted);
    meeting.push_back({r, s});
    if (meeting.size() < members.size()) return;
    for (const Active& member : meeting)
      begin(member, State::resting,
            now_ +
                scene_.times.collective(
                    call.collective, scene_.topology.shape(call.group, ranks_[member.rank].coord)));
    meetings_.erase({call.group, members.front(), call.sequence});
  }

  void post(std::size_t r, std::size_t s, const SharedOp& op) {
    Rank& rank = ranks_[r];
    StreamState& stream = rank.streams[s];
    begin({r, s}, State::posted, now_);
    stream.open = op.transfers;
    for (std::uint32_t t = op.first_transfer; t < op.first_transfer + op.transfers; ++t) {
      const TransferEnd& side = rank.program->transfers[t];
      Coord there = rank.coord;
      there[Axis::pipeline] = side.peer_stage;
      const auto p = static_cast<std::size_t>(index(scene_.topology.mesh().rank(there)));
      StreamState& other = ranks_[p].streams[side.peer_stream];
      if (side.peer_step == kNone || other.step != side.peer_step || other.state != State::posted)
        continue;
      const bool own = p == r && side.peer_stream == s;
      if (own && !side.sends) continue;  // its send does both sides
      const std::int32_t steps = side.peer_stage - rank.program->stage;
      const std::uint32_t route =
          side.sends ? scene_.topology.route(id(r), steps) : scene_.topology.route(id(p), -steps);
      const std::int64_t end = now_ + scene_.times.message(side.message, route);
      arrive(r, s, end);
      arrive(p, side.peer_stream, end);
    }
  }

  // One of the step's transfers ends at `end`.
  void arrive(std::size_t r, std::size_t s, std::int64_t end) {
    StreamState& stream = ranks_[r].streams[s];
    stream.until = std::max(stream.until, end);
    if (--stream.open == 0) stream.state = State::resting;
  }

  static bool timed(const StreamState& stream) {
    return stream.state == State::resting || stream.state == State::issuing;
  }
  static RankId id(std::size_t rank) { return RankId(static_cast<std::int32_t>(rank)); }

  double speed(const Rank& rank) const { return pools_[rank.pool].speed(); }

  // To the next moment at which something ends.
  void pass_time() {
    std::int64_t next = INT64_MAX;
    for (const Active& a : active_) {
      const Rank& rank = ranks_[a.rank];
      const StreamState& stream = rank.streams[a.stream];
      if (timed(stream)) next = std::min(next, stream.until);
      if (stream.state == State::working)
        next = std::min(next, now_ + static_cast<std::int64_t>(
                                         std::ceil(stream.work / speed(rank) - kRounding)));
    }
    if (next == INT64_MAX) return active_.clear();  // everybody waits for somebody
    const auto passed = static_cast<double>(next - now_);
    for (const Active& a : active_) {
      StreamState& stream = ranks_[a.rank].streams[a.stream];
      if (stream.state == State::working) stream.work -= passed * speed(ranks_[a.rank]);
    }
    now_ = next;
    end_what_has();
  }

  void end_what_has() {
    std::vector<Active> ended;
    std::erase_if(active_, [&](const Active& a) {
      const StreamState& stream = ranks_[a.rank].streams[a.stream];
      const bool rested = timed(stream) && stream.until <= now_;
      const bool worked = stream.state == State::working && stream.work <= kRounding;
      if (rested || worked) ended.push_back(a);
      return rested || worked;
    });
    for (const Active& a : ended) end(a);
  }

  void end(const Active& a) {
    Rank& rank = ranks_[a.rank];
    StreamState& stream = rank.streams[a.stream];
    awake_.push_back(a.rank);
    if (stream.state == State::working) pools_[rank.pool].demand -= cores_of(a.stream);
    if (std::exchange(stream.state, State::idle) == State::issuing) return;
    rank.ends[stream.step] = now_;
    rank.durations[stream.step] = now_ - stream.start;
    stream.step = rank.program->steps[stream.step].next;
  }

  static constexpr double kRounding = 1e-3;  // ns

  const Scene& scene_;
  const SharedCores shared_;
  std::int64_t now_ = 0;
  std::vector<Rank> ranks_;
  std::vector<Pool> pools_;
  std::vector<Active> active_;      // streams that have started something
  std::vector<std::size_t> awake_;  // ranks that may start something
  std::map<std::tuple<Group, RankId, std::uint32_t>, std::vector<Active>> meetings_;
};

}  // namespace

std::vector<std::vector<std::int64_t>> share_cores(const Scene& scene, const SharedCores& shared) {
  return CoreSharing(scene, shared).run();
}

}  // namespace trainyard
