#include "simulator/wiring.h"

namespace trainyard {
namespace {

// In-order numbering: a node's lowest set bit is its height above the leaves; the root is 0.
std::int32_t parent_in_order(std::int32_t node, std::int32_t nodes) {
  if (node == 0) return -1;
  const std::int32_t bit = node & -node;
  const std::int32_t wanted = (node ^ bit) | bit << 1;
  return wanted < nodes ? wanted : node ^ bit;
}

}  // namespace

std::vector<std::int32_t> tree_parents(std::int32_t nodes, bool second) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(nodes));
  const bool mirrored = nodes % 2 == 0;
  for (std::int32_t node = 0; node < nodes; ++node) {
    std::int32_t parent = 0;
    if (!second) {
      parent = parent_in_order(node, nodes);
    } else if (mirrored) {
      parent = parent_in_order(nodes - 1 - node, nodes);
      if (parent >= 0) parent = nodes - 1 - parent;
    } else {
      parent = parent_in_order((node + nodes - 1) % nodes, nodes);
      if (parent >= 0) parent = (parent + 1) % nodes;
    }
    out[static_cast<std::size_t>(node)] = parent;
  }
  return out;
}

WireEdges ring_edges(std::int32_t nodes) {
  WireEdges out;
  for (std::int32_t i = 0; i < nodes; ++i) out.emplace_back(i, (i + 1) % nodes);
  return out;
}

WireEdges tree_edges(std::int32_t nodes, bool second) {
  WireEdges out;
  const std::vector<std::int32_t> parents = tree_parents(nodes, second);
  for (std::int32_t child = 0; child < nodes; ++child) {
    const std::int32_t parent = parents[static_cast<std::size_t>(child)];
    if (parent < 0) continue;
    out.emplace_back(child, parent);
    out.emplace_back(parent, child);
  }
  return out;
}

}  // namespace trainyard
