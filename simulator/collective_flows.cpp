#include "simulator/collective_flows.h"

#include <algorithm>
#include <map>

namespace trainyard {
namespace {

// An LL channel carries at least so much before NCCL opens another one: 512 threads times 8 bytes
// (NCCL 2.30 src/enqueue.cc). So a gradient norm's few bytes go up and down one tree.
constexpr std::int64_t kBytesPerTree = 512 * 8;

}  // namespace

CollectiveFlows::CollectiveFlows(const Job& job, const Scene& scene)
    : scene_(scene),
      topology_(job.cluster),
      cards_of_a_gpu_(
          static_cast<std::size_t>(std::max(1, job.cluster.node.nics / job.cluster.node.gpus))) {}

// The first half of a tree's channels carry one of the two, the second half the other.
std::vector<CollectiveFlows::Channel> CollectiveFlows::channels(const CollectiveSpec& spec,
                                                                Wiring wiring, std::size_t cards,
                                                                std::int64_t members) const {
  std::vector<Channel> out;
  const bool trees = wiring == Wiring::tree;
  std::int64_t count = static_cast<std::int64_t>(cards) * (trees ? 2 : 1);
  if (trees) count = std::clamp<std::int64_t>(spec.bytes.value / kBytesPerTree, 1, count);
  const Bytes all = trees ? spec.bytes : ring_bytes(spec.op, members, spec.bytes);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    out.push_back({at % cards, at >= cards, all / count});
  }
  return out;
}

std::span<const std::vector<Flow>> CollectiveFlows::make(const SharedOp& op, RankId member) {
  const CollectiveSpec& spec = scene_.specs.collectives[op.collective];
  const Mesh& mesh = scene_.topology.mesh();
  const auto members = mesh.members(op.group, member);
  std::map<NodeId, std::vector<RankId>> by_node;
  for (const RankId rank : members) by_node[scene_.topology.placement().node(rank)].push_back(rank);
  std::vector<const std::vector<RankId>*> ranks;
  std::vector<NodeId> nodes;
  for (const auto& [node, its] : by_node) {
    ranks.push_back(&its);
    nodes.push_back(node);
  }
  const Wiring wiring =
      scene_.flows.wiring(op.collective, scene_.topology.shape(op.group, mesh.coord(member)));
  const auto count = static_cast<std::int32_t>(nodes.size());
  WireEdges edges = wiring == Wiring::tree ? tree_edges(count, false) : ring_edges(count);
  WireEdges others = wiring == Wiring::tree ? tree_edges(count, true) : WireEdges{};
  const std::size_t cards = ranks.front()->size() * cards_of_a_gpu_;
  made_.clear();
  for (const Channel& channel : channels(spec, wiring, cards, std::ssize(members))) {
    const auto place = [&](std::int32_t node) {
      const std::vector<RankId>& its = *ranks[static_cast<std::size_t>(node)];
      return its[channel.card / cards_of_a_gpu_ % its.size()];
    };
    // Trees have queue pairs of their own, on the same card.
    const std::size_t hash =
        channel.card % cards_of_a_gpu_ + (channel.second_tree ? cards_of_a_gpu_ : 0);
    std::vector<Flow>& flows = channel.second_tree ? made_[channel.card] : made_.emplace_back();
    for (const auto& [from, to] : channel.second_tree ? others : edges)
      flows.push_back({place(from), place(to), channel.bytes, static_cast<std::uint32_t>(hash)});
  }
  if (made_.front().size() > edges.size()) edges.insert(edges.end(), others.begin(), others.end());
  measure(edges, nodes);
  lie_.of_node.value *= static_cast<std::int64_t>(cards) * made_.front().front().bytes.value;
  return made_;
}

// `edges`: of one card. So many of them leave the busiest node.
void CollectiveFlows::measure(const WireEdges& edges, const std::vector<NodeId>& nodes) {
  lie_ = {};
  std::vector<std::int64_t> leave(nodes.size());
  for (const auto& [source, target] : edges) {
    const auto from = static_cast<std::size_t>(source), to = static_cast<std::size_t>(target);
    const Time edge = topology_.latency(topology_.tier(nodes[from], nodes[to]));
    lie_.latency = std::max(lie_.latency, edge);
    lie_.mean_latency_us += to_microseconds(edge) / static_cast<double>(edges.size());
    lie_.of_node.value = std::max(lie_.of_node.value, ++leave[from]);
  }
}

}  // namespace trainyard
