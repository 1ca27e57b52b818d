#include "tools/trainyard/net_ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "core/config/units.h"
#include "core/error.h"
#include "core/random.h"
#include "network_models/network_models.h"

namespace trainyard {
namespace {

std::int64_t groups_on_a_node(const Job& job, const RingLayout& layout) {
  return std::min<std::int64_t>(layout.groups, job.cluster.node.gpus / layout.per_node);
}

// Drawn by Fisher and Yates' shuffle.
void shuffle(std::vector<std::int32_t>& nodes, std::uint64_t seed) {
  const PhiloxKey key = random_key(seed, "order of nodes");
  for (std::size_t i = nodes.size(); i > 1; --i)
    std::swap(nodes[i - 1], nodes[philox(key, i)[0] % i]);
}

// What an edge carries: so much that latency does not show. Rates do not depend on it, as all
// groups move equally much. Packets are too many for that; theirs is sixteen messages of NCCL's.
constexpr Bytes kEdge{std::int64_t{1} << 40};
constexpr Bytes kEdgeOfPackets{std::int64_t{8} << 20};

struct Rings {
  std::vector<FlowId> ids;
  std::vector<std::size_t> group;  // of each
  std::vector<double> latency_us;  // mean over the edges
  std::int64_t flows = 0;
};

// The rings or trees that a card has.
std::vector<WireEdges> edges_of(Pattern pattern, std::int32_t nodes) {
  if (pattern == Pattern::ring) return {ring_edges(nodes)};
  return {tree_edges(nodes, false), tree_edges(nodes, true)};
}

// Where rings start.
struct Ground {
  NetworkModel& model;
  const Fabric& fabric;
  const Router& router;
  Bytes edge;
};

// The flows between the cards of one group's nodes, a ring or two trees for each of its cards.
void start_group(const Ground& ground, Pattern pattern, const std::vector<std::int32_t>& nodes,
                 std::pair<std::int32_t, std::int32_t> cards, Rings& rings) {
  const NodeProfile& node = ground.fabric.node();
  const auto all = edges_of(pattern, static_cast<std::int32_t>(nodes.size()));
  for (std::int32_t card = cards.first; card < cards.second; ++card) {
    const std::int32_t gpu = card * node.gpus / node.nics;
    // Trees have queue pairs of their own, on the same card.
    auto channel = static_cast<std::uint32_t>(card);
    double latency_us = 0, count = 0;
    for (const WireEdges& places : all) {
      std::vector<Flow> edges;
      for (const auto& [source, target] : places) {
        const std::int32_t from = nodes[static_cast<std::size_t>(source)] * node.gpus + gpu;
        const std::int32_t to = nodes[static_cast<std::size_t>(target)] * node.gpus + gpu;
        edges.push_back({RankId{from}, RankId{to}, ground.edge, channel});
        latency_us += to_microseconds(
            ground.fabric.latency(ground.router.path({from, to, channel, 0}).switches));
        ++count;
      }
      rings.ids.push_back(ground.model.start_in_step(edges, Time{}));
      rings.flows += std::ssize(edges);
      channel += static_cast<std::uint32_t>(node.nics);
    }
    rings.latency_us.resize(rings.ids.size(), latency_us / count);
  }
}

// "tor_up:3:5=0.5": port 5 of ToR switch 3 upwards has half its rate. What is down is known to be.
void set_link(FlowModel& model, const std::string& text) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const auto fraction = parse_number(text.substr(std::min(equals + 1, text.size())));
  if (!fraction || *fraction < 0 || *fraction > 1)
    throw ConfigError(
        fmt::format("--link {}: write LINK=FRACTION, from 0 (down) to 1, such as "
                    "tor_up:3:5=0.5",
                    text));
  const LinkId link = model.link(text.substr(0, equals));
  model.set_capacity(link, *fraction, Time{});
  if (*fraction == 0) model.route_around(link, true, Time{});
}

void look_at_links(FlowModel& model, double per_pair, RingReport& report) {
  const Fabric& fabric = model.fabric();
  for (std::int32_t i = 0; i < fabric.links(); ++i) {
    const LinkKind kind = fabric.place(LinkId{i}).kind;
    if (kind < LinkKind::tor_up) continue;
    const double pairs = model.queue_pairs(LinkId{i});
    ++report.uplinks;
    report.uplinks_used += pairs > 0 ? 1 : 0;
    report.uplinks_crowded += pairs * per_pair > fabric.capacity(kind) * (1 + 1e-9) ? 1 : 0;
  }
}

Rings start_groups(const Ground& ground, const Job& job, const RingLayout& layout) {
  const NodeProfile& node = job.cluster.node;
  const auto groups = ring_nodes(job, layout);
  const std::int64_t shared = groups_on_a_node(job, layout);
  Rings rings;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto gpu = static_cast<std::int32_t>(group % shared) * layout.per_node;
    const std::int32_t first = gpu * node.nics / node.gpus;
    const std::int32_t last = (gpu + layout.per_node) * node.nics / node.gpus;
    start_group(ground, layout.pattern, groups[group], {first, std::max(first + 1, last)}, rings);
    rings.group.resize(rings.ids.size(), group);
  }
  return rings;
}

// A group's rings carry equal parts of its data, so the last one to end counts. Two trees carry
// half of their card's data each, up and down again, for which CollectiveTimer takes the node's
// wires twice, or once where two nodes have a direction for each tree.
std::vector<Wires> wires_at_the_end(const Ground& ground, const RingLayout& layout,
                                    const Rings& rings) {
  const double parts = layout.pattern == Pattern::ring || layout.nodes() == 2 ? 1 : 2;
  std::vector<Wires> wires(static_cast<std::size_t>(layout.groups));
  std::vector<double> count(wires.size()), last_us(wires.size());
  std::vector<FlowEnd> ended;
  while (ground.model.advance(kNever, ended) < kNever) {
  }
  check(ended.size() == rings.ids.size(), "a ring never ended");
  for (const FlowEnd& end : ended) {
    const auto ring = std::ranges::find(rings.ids, end.flow) - rings.ids.begin();
    const std::size_t group = rings.group[ring];
    ++count[group];
    wires[group].latency_us = std::max(wires[group].latency_us, rings.latency_us[ring]);
    last_us[group] = std::max(last_us[group], to_microseconds(end.at) - rings.latency_us[ring]);
  }
  for (std::size_t group = 0; group < wires.size(); ++group)
    wires[group].node = {parts * count[group] * static_cast<double>(ground.edge.value) /
                         (last_us[group] * 1e-6)};
  return wires;
}

}  // namespace

std::vector<std::vector<std::int32_t>> ring_nodes(const Job& job, const RingLayout& layout) {
  const std::int64_t shared = groups_on_a_node(job, layout);
  const std::int64_t blocks = (layout.groups + shared - 1) / shared;
  const std::int64_t needed = blocks * layout.nodes();
  if (needed > job.cluster.nodes)
    throw ConfigError(
        fmt::format("{} groups of {} GPUs, {} on a node, need {} nodes; the cluster "
                    "has {}",
                    layout.groups, layout.gpus, layout.per_node, needed, job.cluster.nodes));
  std::vector<std::int32_t> nodes(static_cast<std::size_t>(job.cluster.nodes));
  std::iota(nodes.begin(), nodes.end(), 0);
  if (layout.shuffled) shuffle(nodes, job.seed);
  std::vector<std::vector<std::int32_t>> out;
  for (std::int64_t group = 0; group < layout.groups; ++group) {
    const auto first = nodes.begin() + group / shared * layout.nodes();
    out.emplace_back(first, first + layout.nodes());
  }
  return out;
}

GroupShape ring_shape(const Job& job, const RingLayout& layout,
                      const std::vector<std::int32_t>& nodes) {
  const Topology topology(job.cluster);
  std::vector<std::int64_t> sets, pods;
  for (const std::int32_t node : nodes) {
    sets.push_back(topology.tor_set(NodeId{node}));
    pods.push_back(topology.pod(NodeId{node}));
  }
  const auto distinct = [](std::vector<std::int64_t>& of) {
    std::ranges::sort(of);
    return static_cast<std::int32_t>(std::ranges::unique(of).begin() - of.begin());
  };
  GroupShape shape;
  shape.ranks = static_cast<std::int32_t>(layout.gpus);
  shape.nodes = static_cast<std::int32_t>(nodes.size());
  shape.concurrent_per_node = job.cluster.node.gpus / layout.per_node;
  shape.tor_span = distinct(sets);
  shape.pod_span = distinct(pods);
  return shape;
}

FlowModel make_flows(const Job& job, const RingLayout& layout) {
  FlowModel model(job.cluster, job.network, Placement{job.cluster.node.gpus, {}}, job.seed);
  for (const std::string& link : layout.links) set_link(model, link);
  return model;
}

RingReport run_rings(const Job& job, const RingLayout& layout) {
  if (layout.pattern == Pattern::pairs) return run_pairs(job, layout);
  const NodeProfile& node = job.cluster.node;
  FlowModel model = make_flows(job, layout);
  const Ground ground{model, model.fabric(), model.router(), kEdge};
  const Rings rings = start_groups(ground, job, layout);
  RingReport report;
  report.pattern = layout.pattern;
  report.flows = rings.flows;
  const double card =
      std::min(node.nic.value * node.nic_efficiency, model.fabric().capacity(LinkKind::pcie_out));
  FlowId slowest = rings.ids.front();
  for (const FlowId ring : rings.ids)
    if (model.rate(ring) < model.rate(slowest)) slowest = ring;
  if (const std::string& why = model.obstacle(slowest); !why.empty())
    throw ConfigError(fmt::format("--link: {}, and a collective needs all its edges", why));
  report.slowest_edge = model.rate(slowest).value / card;
  report.slowest_link = model.fabric().name(model.bottleneck(slowest));
  report.slowest_pairs = model.queue_pairs(model.bottleneck(slowest));
  look_at_links(model, card / job.network.qps_per_connection, report);
  report.wires = wires_at_the_end(ground, layout, rings);
  return report;
}

RingReport run_rings_beside(const Job& job, const RingLayout& layout) {
  const std::unique_ptr<NetworkModel> model = make_network_model(job);
  const Fabric fabric(job.cluster);
  const Router router(fabric, job.cluster.fabric.polarised, job.seed);
  const bool packets = job.network.model == "packet";
  const Ground ground{*model, fabric, router, packets ? kEdgeOfPackets : kEdge};
  const Rings rings = start_groups(ground, job, layout);
  RingReport report;
  report.pattern = layout.pattern;
  report.flows = rings.flows;
  report.wires = wires_at_the_end(ground, layout, rings);
  return report;
}

}  // namespace trainyard
