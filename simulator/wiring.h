#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace trainyard {

// How the flows of a collective lie between nodes: around them, or up and down two binary trees.
enum class Wiring : std::uint8_t { none, ring, tree };

// (from, to) of each edge, by place among the nodes of a group.
using WireEdges = std::vector<std::pair<std::int32_t, std::int32_t>>;
WireEdges ring_edges(std::int32_t nodes);
// Up and down the first or the second tree.
WireEdges tree_edges(std::int32_t nodes, bool second);

// Parent of each of `nodes` nodes in the first or second of NCCL's two binary trees
// (src/graph/trees.cc); -1: the root. The second is the mirror of the first, so that every node is
// a leaf in one of them, or with an odd number of nodes the first shifted by one.
std::vector<std::int32_t> tree_parents(std::int32_t nodes, bool second);

}  // namespace trainyard
