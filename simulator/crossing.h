#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "simulator/scene.h"

namespace trainyard {

// Collectives whose members are on several islands: those of replicas, of context ranks and of the
// world; and
// those inside one island that travel as flows. Islands only read this table while they run;
// arrivals are entered between rounds, and a collective that all members have reached ends its own
// duration after the last of them.
class Crossings {
 public:
  explicit Crossings(const Scene& scene);

  // Whether collectives of `group` cross islands at all.
  bool crosses(Group group) const {
    return scene_.layout.islands() > 1 &&
           (group == Group::data || group == Group::context || group == Group::world);
  }
  // Whether a collective of an island ends here, not on the island itself.
  bool takes(const SharedOp& op, std::int32_t stage, std::int32_t island) const {
    return crosses(op.group) || travels(op, stage, island);
  }
  std::uint32_t id(const SharedOp& op, std::int32_t stage, std::int32_t island) const;
  // Whether only one island waits for it.
  bool inside_an_island(std::uint32_t id) const { return id >= inside_; }
  bool ended(std::uint32_t id) const { return arrived_[id] == kEnded; }
  std::span<const std::int64_t> ends(std::uint32_t id) const { return row(ends_, id); }

  // A rank that a gang's lane is: stage, island and lane.
  struct Member {
    std::int32_t stage, island, lane;
    auto operator<=>(const Member&) const = default;
  };
  // The member that arrived last, as seen by `lane`; of several, the lowest.
  Member last(std::uint32_t id, std::int32_t lane) const { return row(last_, id)[lane]; }

  // From the last arrival to the end.
  std::int64_t duration(std::uint32_t id, std::int32_t lane) const {
    return row(durations_, id)[static_cast<std::size_t>(lane)];
  }

  // Enters one gang; true if it was the last one missing. The collective has then ended, unless it
  // travels as flows: those have to land().
  bool arrive(const SharedOp& op, std::int32_t stage, std::int32_t island,
              std::span<const std::int64_t> ready);
  bool travels(const SharedOp& op, std::int32_t stage, std::int32_t island) const;
  // The latest arrival of each lane, while flows are on the way.
  std::span<const std::int64_t> latest(std::uint32_t id) const { return row(ends_, id); }
  // A lane's flows have ended, or those of all lanes together; true if no other lane's are missing.
  bool land(const SharedOp& op, std::uint32_t id, std::int32_t lane, std::int64_t at);

 private:
  static constexpr std::uint32_t kEnded = UINT32_MAX;

  std::uint32_t expected(const SharedOp& op, std::int32_t island) const;
  template <class T>
  std::span<T> row(std::vector<T>& table, std::uint32_t id) const {
    return {table.data() + id * lanes_, lanes_};
  }
  template <class T>
  std::span<const T> row(const std::vector<T>& table, std::uint32_t id) const {
    return {table.data() + id * lanes_, lanes_};
  }
  void finish(const SharedOp& op, std::int32_t stage, std::int32_t island);

  const Scene& scene_;
  std::size_t lanes_;
  std::vector<std::uint32_t> data_;      // first id of each stage
  std::vector<std::uint32_t> contexts_;  // first id of each stage; sets of islands one by one
  std::vector<std::uint32_t> set_of_, set_size_;  // islands that share sequences
  std::uint32_t world_ = 0;                       // first id
  std::uint32_t inside_ = 0;                      // first id
  std::uint32_t embeddings_ = 0, models_ = 0;     // how many an island has of either group
  std::vector<std::uint32_t> arrived_;
  std::vector<std::int64_t> ends_;  // until ended: the latest arrival
  std::vector<std::int64_t> durations_;
  std::vector<std::size_t> landed_;  // lanes
  std::vector<Member> last_;
};

}  // namespace trainyard
