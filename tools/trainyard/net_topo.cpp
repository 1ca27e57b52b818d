#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/report/text.h"
#include "network_models/fabric/fabric.h"
#include "tools/trainyard/net.h"

namespace trainyard {
namespace {

struct TopoOptions {
  NetInputs net;
  bool graph = false;
};

// A tier of equal switches: cables of one switch downwards and upwards, and their nominal rate in
// bytes per second.
struct TierRow {
  const char* name;
  std::int64_t switches;
  double down, down_rate, up, up_rate;
};

// Pairs of cards of one rail by the highest tier between them.
struct PairRow {
  const char* name;
  double pairs;
  std::int64_t paths;
  int switches;
};

// Nominal, of one cable.
double cable_rate(const Fabric& fabric, LinkKind kind) {
  double ways = fabric.node().nic_efficiency;
  // An adaptive fabric has one link for all cables of a switch or pod.
  if (fabric.adaptive() && kind == LinkKind::tor_up) ways *= fabric.aggregations();
  if (fabric.adaptive() && kind == LinkKind::core_up)
    ways *= static_cast<double>(fabric.aggregations()) * fabric.cores_per_plane();
  return fabric.capacity(kind) / ways;
}

std::vector<TierRow> tiers(const Fabric& fabric) {
  const double card = cable_rate(fabric, LinkKind::nic_out);
  const double uplink = cable_rate(fabric, LinkKind::tor_up);
  const double core = cable_rate(fabric, LinkKind::core_up);
  const std::int32_t aggregations = fabric.aggregations(), cores = fabric.cores_per_plane();
  const double cards = static_cast<double>(fabric.links(LinkKind::nic_out)) / fabric.tors();
  std::vector<TierRow> out{{"ToR", fabric.tors(), cards, card, 1.0 * aggregations, uplink}};
  if (aggregations > 0)
    out.push_back({"aggregation", std::int64_t{fabric.pods()} * aggregations,
                   1.0 * fabric.tors() / fabric.pods(), uplink, 1.0 * cores, core});
  if (cores > 0)
    out.push_back(
        {"core", std::int64_t{aggregations} * cores, 1.0 * fabric.pods(), core, 0.0, 0.0});
  return out;
}

std::vector<PairRow> pairs(const Fabric& fabric) {
  // Of two nodes drawn at random, by how many of n are as near to the first.
  double same_tor = 0, same_pod = 0;
  const std::int32_t nodes = fabric.nodes();
  std::vector<double> in_set(static_cast<std::size_t>(fabric.tor_sets()));
  std::vector<double> in_pod(static_cast<std::size_t>(fabric.pods()));
  for (std::int32_t node = 0; node < nodes; ++node) {
    ++in_set[fabric.tor_set(node)];
    ++in_pod[fabric.pod_of_set(fabric.tor_set(node))];
  }
  for (const double n : in_set) same_tor += n * (n - 1);
  for (const double n : in_pod) same_pod += n * (n - 1);
  const double all = std::max(1.0, static_cast<double>(nodes) * (nodes - 1));
  const std::int64_t up = fabric.aggregations();
  std::vector<PairRow> out{{"below one ToR", same_tor / all, 1, 1}};
  if (up > 0) out.push_back({"in one pod", (same_pod - same_tor) / all, up, 3});
  if (fabric.pods() > 1)
    out.push_back({"across pods", 1 - same_pod / all, up * fabric.cores_per_plane(), 5});
  return out;
}

// Payload bytes per second from one half of the nodes to the other, and from half the cards.
std::pair<double, double> bisection(const Fabric& fabric) {
  const auto half = [&](LinkKind kind) { return fabric.capacity(kind) * fabric.links(kind) / 2; };
  const double cards = half(LinkKind::nic_out);
  double least = cards;
  for (const LinkKind kind : {LinkKind::tor_up, LinkKind::core_up})
    if (fabric.links(kind) > 0) least = std::min(least, half(kind));
  return {least, cards};
}

std::string topo_text(const Job& job, const Fabric& fabric) {
  const auto count = [](double n) { return fmt::format("{:.4g}", n); };
  const auto gigabits = [](double rate) {
    return rate > 0 ? fmt::format("{:.1f}", rate * 8e-9) : std::string("-");
  };
  std::string out = fmt::format("{}: {} GPUs in {} nodes, {} rails, {} ToR sets, {} pods\n\n",
                                job.name, grouped(fabric.gpus()), grouped(fabric.nodes()),
                                fabric.rails(), fabric.tor_sets(), fabric.pods());
  TextTable switches;
  switches.row({"tier", "switches", "ports down", "Gb/s", "ports up", "Gb/s", "down : up"});
  for (const TierRow& tier : tiers(fabric)) {
    const double up = tier.up * tier.up_rate;
    switches.row({tier.name, grouped(tier.switches), count(tier.down), gigabits(tier.down_rate),
                  count(tier.up), gigabits(tier.up_rate),
                  up > 0 ? fmt::format("{:.3g} : 1", tier.down * tier.down_rate / up) : "-"});
  }
  out += switches.text() + "\n";
  TextTable near;
  near.row({"pairs of nodes", "%", "paths", "switches", "latency us"});
  for (const PairRow& row : pairs(fabric))
    near.row({row.name, percent(row.pairs), grouped(row.paths), fmt::format("{}", row.switches),
              fmt::format("{:.2f}", to_microseconds(fabric.latency(row.switches)))});
  out += near.text() + "\n";
  const auto [across, full] = bisection(fabric);
  out += fmt::format("bisection {:.1f} TB/s, {} % of the cards'\n", across * 1e-12,
                     percent(across / full));
  if (fabric.adaptive()) out += "switches spread packets over all paths: no collisions\n";
  return out + fmt::format("links {} in both directions\n", grouped(fabric.links()));
}

Json topo_json(const Job& job, const Fabric& fabric) {
  Json switches = Json::array(), near = Json::array();
  for (const TierRow& tier : tiers(fabric))
    switches.push_back({{"tier", tier.name},
                        {"switches", tier.switches},
                        {"ports_down", tier.down},
                        {"down_bytes_per_s", tier.down_rate},
                        {"ports_up", tier.up},
                        {"up_bytes_per_s", tier.up_rate}});
  for (const PairRow& row : pairs(fabric))
    near.push_back({{"pairs", row.name},
                    {"fraction", row.pairs},
                    {"paths", row.paths},
                    {"switches", row.switches},
                    {"latency_s", to_seconds(fabric.latency(row.switches))}});
  const auto [across, full] = bisection(fabric);
  return {{"schema", "trainyard-net-topo-1"},
          {"cluster", job.name},
          {"gpus", fabric.gpus()},
          {"nodes", fabric.nodes()},
          {"rails", fabric.rails()},
          {"tor_sets", fabric.tor_sets()},
          {"pods", fabric.pods()},
          {"tiers", switches},
          {"pairs", near},
          {"bisection_bytes_per_s", across},
          {"bisection_of_cards", across / full},
          {"adaptive_routing", fabric.adaptive()},
          {"links", fabric.links()}};
}

// The largest fabrics draw as few boxes as the smallest: one for each tier of a pod.
std::string graph(const Job& job, const Fabric& fabric) {
  constexpr std::int32_t kDrawn = 4;  // pods, and ToR sets of a pod
  const std::vector<TierRow> rows = tiers(fabric);
  std::string out = "graph fabric {\n  rankdir=TB;\n  node [shape=box, fontname=sans];\n";
  out += fmt::format("  label=\"{}: {} GPUs\";\n", job.name, grouped(fabric.gpus()));
  const auto cables = [](double each, double rate) {
    return fmt::format("{:.4g} x {:.0f}G", each, rate * 8e-9);
  };
  if (rows.size() > 2)
    out += fmt::format("  core [label=\"{} core switches\"];\n", grouped(rows[2].switches));
  const std::int32_t sets_per_pod = fabric.tors_per_pod() / fabric.rails();
  const auto drawn = [](std::int32_t i, std::int32_t count) {
    return count <= kDrawn || i < kDrawn - 1 || i == count - 1;
  };
  for (std::int32_t pod = 0; pod < fabric.pods(); ++pod) {
    if (!drawn(pod, fabric.pods())) continue;
    const std::int32_t first = pod * sets_per_pod;
    const std::int32_t last = std::min(first + sets_per_pod, fabric.tor_sets());
    out += fmt::format("  subgraph cluster_pod{} {{\n    label=\"pod {} of {}\";\n", pod, pod + 1,
                       fabric.pods());
    if (rows.size() > 1)
      out += fmt::format("    agg{} [label=\"{} aggregation switches\"];\n", pod,
                         fabric.aggregations());
    for (std::int32_t set = first; set < last; ++set) {
      if (!drawn(set - first, last - first)) continue;
      const std::int32_t nodes =
          std::min(fabric.nodes_per_tor(), fabric.nodes() - set * fabric.nodes_per_tor());
      out += fmt::format(
          "    tor{0} [label=\"ToR set {1}: {2} switches\"];\n"
          "    nodes{0} [label=\"{3} nodes, {4} GPUs\"];\n",
          set, set + 1, fabric.rails(), nodes, nodes * fabric.node().gpus);
      out += fmt::format("    tor{0} -- nodes{0} [label=\"{1}\"];\n", set,
                         cables(1.0 * nodes * fabric.node().nics, rows[0].down_rate));
      if (rows.size() > 1)
        out += fmt::format("    agg{} -- tor{} [label=\"{}\"];\n", pod, set,
                           cables(rows[0].up * fabric.rails(), rows[0].up_rate));
    }
    out += "  }\n";
    if (rows.size() > 2)
      out += fmt::format("  core -- agg{} [label=\"{}\"];\n", pod,
                         cables(rows[1].up * fabric.aggregations(), rows[1].up_rate));
  }
  return out + "}\n";
}

int topo(const TopoOptions& options) {
  const Job job = load_net(options.net);
  const Fabric fabric(job.cluster);
  Output output(options.net.inputs, "net-topo");
  output.write(topo_json(job, fabric), options.graph ? graph(job, fabric) : topo_text(job, fabric));
  return 0;
}

}  // namespace

void add_net_topo(CLI::App& net, Action& action) {
  CLI::App* command =
      net.add_subcommand("topo", "Count the switches, cables and paths of a fabric");
  auto options = std::make_shared<TopoOptions>();
  add_net_inputs(*command, options->net);
  command->add_flag("--graphviz", options->graph, "Print a picture for dot instead");
  command->callback([&action, options] { action = [options] { return topo(*options); }; });
}

}  // namespace trainyard
