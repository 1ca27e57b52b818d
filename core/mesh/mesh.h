#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace trainyard {

enum class Axis : std::uint8_t { tensor, context, expert, data, pipeline };
inline constexpr int kAxes = 5;
inline constexpr std::array<std::string_view, kAxes> kAxisNames{"tensor", "context", "expert",
                                                                "data", "pipeline"};

// Whom a collective or a transfer is among. The first five go along a mesh axis.
enum class Group : std::uint8_t {
  tensor,
  context,
  expert,
  data,  // those that hold the same weights: all data and context coordinates, context innermost
  pipeline,
  embedding,  // first and last pipeline stage, other coordinates equal
  model,      // all tensor and pipeline coordinates of one replica of the model
  world,
};
inline constexpr int kGroups = 8;
std::string_view group_name(Group group);
constexpr Group group_of(Axis axis) { return static_cast<Group>(axis); }

struct Coord {
  std::array<std::int32_t, kAxes> at{};
  std::int32_t& operator[](Axis a) { return at[static_cast<int>(a)]; }
  std::int32_t operator[](Axis a) const { return at[static_cast<int>(a)]; }
  bool operator==(const Coord&) const = default;
};

// Lays the ranks of a job out along the axes; `order` is innermost (fastest varying) first.
class Mesh {
 public:
  Mesh() = default;
  Mesh(std::array<std::int32_t, kAxes> sizes, std::array<Axis, kAxes> order);

  std::int32_t size() const { return size_; }
  std::int32_t size(Axis axis) const { return sizes_[static_cast<int>(axis)]; }
  std::int32_t size(Group group) const;
  std::int32_t stride(Axis axis) const { return strides_[static_cast<int>(axis)]; }
  const std::array<Axis, kAxes>& order() const { return order_; }

  RankId rank(const Coord& coord) const;
  Coord coord(RankId rank) const;
  // Replicas of the model, the members of a data group, and which of them a rank belongs to.
  std::int32_t replicas() const { return size(Group::data); }
  std::int32_t replica(const Coord& coord) const {
    return coord[Axis::data] * size(Axis::context) + coord[Axis::context];
  }
  // Members of the group that `rank` belongs to, in the order every member agrees on.
  std::vector<RankId> members(Group group, RankId rank) const;
  // The rank `steps` away along `axis`, cyclically.
  RankId neighbour(RankId rank, Axis axis, std::int32_t steps) const;

 private:
  std::array<std::int32_t, kAxes> sizes_{1, 1, 1, 1, 1};
  std::array<std::int32_t, kAxes> strides_{1, 1, 1, 1, 1};
  std::array<Axis, kAxes> order_{Axis::tensor, Axis::context, Axis::expert, Axis::data,
                                 Axis::pipeline};
  std::int32_t size_ = 1;
};

// Which node and which GPU slot of it holds each rank.
struct Placement {
  std::int32_t gpus_per_node = 8;
  std::vector<std::int32_t> slot_of_rank;  // empty: rank i sits in slot i

  std::int64_t slot(RankId rank) const {
    return slot_of_rank.empty() ? index(rank) : slot_of_rank[index(rank)];
  }
  NodeId node(RankId rank) const { return NodeId(static_cast<int>(slot(rank) / gpus_per_node)); }
  std::int32_t gpu(RankId rank) const { return static_cast<int>(slot(rank) % gpus_per_node); }
};

}  // namespace trainyard
