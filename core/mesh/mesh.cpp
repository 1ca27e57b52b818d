#include "core/mesh/mesh.h"

#include <algorithm>

#include "core/error.h"

namespace trainyard {
namespace {

// The axes a group runs along, outermost first; embedding is not a product of axes.
std::vector<Axis> axes_of(Group group) {
  switch (group) {
    case Group::model:
      return {Axis::pipeline, Axis::expert, Axis::tensor};
    case Group::data:
      return {Axis::data, Axis::context};
    case Group::world:
      return {Axis::pipeline, Axis::data, Axis::context, Axis::expert, Axis::tensor};
    case Group::embedding:
      return {};
    default:
      return {static_cast<Axis>(group)};
  }
}

}  // namespace

std::string_view group_name(Group group) {
  static constexpr std::array<std::string_view, kGroups> kNames{
      "tensor", "context", "expert", "data", "pipeline", "embedding", "model", "world"};
  return kNames[static_cast<int>(group)];
}

Mesh::Mesh(std::array<std::int32_t, kAxes> sizes, std::array<Axis, kAxes> order)
    : sizes_(sizes), order_(order) {
  auto sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (int a = 0; a < kAxes; ++a) {
    check(static_cast<int>(sorted[a]) == a, "a mesh order names every axis once");
    check(sizes[a] >= 1, "mesh axis {} has size {}", kAxisNames[a], sizes[a]);
  }
  for (Axis axis : order_) {
    strides_[static_cast<int>(axis)] = size_;
    size_ *= sizes_[static_cast<int>(axis)];
  }
}

std::int32_t Mesh::size(Group group) const {
  if (group == Group::embedding) return std::min(size(Axis::pipeline), 2);
  std::int32_t n = 1;
  for (Axis axis : axes_of(group)) n *= size(axis);
  return n;
}

RankId Mesh::rank(const Coord& coord) const {
  std::int32_t r = 0;
  for (int a = 0; a < kAxes; ++a) r += coord.at[a] * strides_[a];
  return RankId{r};
}

Coord Mesh::coord(RankId rank) const {
  Coord c;
  for (int a = 0; a < kAxes; ++a)
    c.at[a] = static_cast<std::int32_t>(index(rank)) / strides_[a] % sizes_[a];
  return c;
}

std::vector<RankId> Mesh::members(Group group, RankId member) const {
  Coord c = coord(member);
  if (group == Group::embedding) {
    c[Axis::pipeline] = 0;
    std::vector<RankId> ends{rank(c)};
    c[Axis::pipeline] = size(Axis::pipeline) - 1;
    if (rank(c) != ends[0]) ends.push_back(rank(c));
    return ends;
  }
  for (Axis axis : axes_of(group)) c[axis] = 0;
  std::vector<RankId> all{rank(c)};
  for (Axis axis : axes_of(group)) {
    std::vector<RankId> grown;
    grown.reserve(all.size() * size(axis));
    for (RankId r : all)
      for (std::int32_t i = 0; i < size(axis); ++i)
        grown.push_back(RankId{static_cast<std::int32_t>(index(r)) + i * stride(axis)});
    all = std::move(grown);
  }
  return all;
}

RankId Mesh::neighbour(RankId from, Axis axis, std::int32_t steps) const {
  Coord c = coord(from);
  const std::int32_t n = size(axis);
  c[axis] = ((c[axis] + steps) % n + n) % n;
  return rank(c);
}

}  // namespace trainyard
