#include "core/config/schema_rows.h"

namespace trainyard {
namespace {

std::vector<Row> node_rows() {
  return {
      row_of_preset("cluster.preset", "file of scenarios/clusters, without .toml, merged below"),
      row("cluster.nodes", TRAINYARD_AT(cluster.nodes),
          "servers; default: as many as the ranks need")
          .within(1, 1e6)
          .computed(),
      row("cluster.node.gpus", TRAINYARD_AT(cluster.node.gpus), "GPUs of a node").within(1, 1024),
      row("cluster.node.nvlink_gbs", TRAINYARD_AT(cluster.node.nvlink),
          "usable NVLink bandwidth of a GPU in one direction; 0 = none")
          .within(0, 1e5),
      row("cluster.node.nics", TRAINYARD_AT(cluster.node.nics), "network cards of a node")
          .within(0, 1024),
      row("cluster.node.nic_gbps", TRAINYARD_AT(cluster.node.nic),
          "nominal rate of one card in one direction")
          .within(0, 1e5),
      row("cluster.node.nic_efficiency", TRAINYARD_AT(cluster.node.nic_efficiency),
          "payload fraction of the nominal rate")
          .within(0.01, 1),
      row("cluster.node.pcie_gbs", TRAINYARD_AT(cluster.node.pcie),
          "usable PCIe bandwidth of a GPU in one direction")
          .within(0, 1e5),
      row_of_names("cluster.node.cpu", TRAINYARD_AT(cluster.node.cpu),
                   {{"amd", "AMD"}, {"intel", "Intel"}}, "host, for NCCL's network overhead"),
      row("cluster.node.load_sequence_us", TRAINYARD_AT(cluster.node.load_sequence_us),
          "time of one loader worker to read and prepare one sequence")
          .at_least(0),
  };
}

std::vector<Row> fabric_rows() {
  return {
      row_of_names("cluster.fabric.kind", TRAINYARD_AT(cluster.fabric.kind),
                   {{"clos", "ToR, aggregation and core tiers"},
                    {"single-switch", "every card on one switch"}},
                   "shape of the network"),
      row("cluster.fabric.rails", TRAINYARD_AT(cluster.fabric.rails),
          "ToR switches of a set; card i of a node reaches ToR i")
          .within(1, 1024),
      row("cluster.fabric.nodes_per_tor", TRAINYARD_AT(cluster.fabric.nodes_per_tor),
          "nodes below one set of ToR switches")
          .within(1, 1e6),
      row("cluster.fabric.tors_per_pod", TRAINYARD_AT(cluster.fabric.tors_per_pod),
          "ToR switches below one aggregation group")
          .within(1, 1e6),
      row("cluster.fabric.tor_uplinks", TRAINYARD_AT(cluster.fabric.tor_uplinks),
          "uplinks of a ToR switch")
          .within(1, 1e4),
      row("cluster.fabric.aggregation_uplinks", TRAINYARD_AT(cluster.fabric.aggregation_uplinks),
          "uplinks of an aggregation switch")
          .within(1, 1e4),
      row("cluster.fabric.uplink_gbps", TRAINYARD_AT(cluster.fabric.uplink),
          "rate of one uplink in one direction")
          .within(0, 1e5),
      row("cluster.fabric.oversubscription", TRAINYARD_AT(cluster.fabric.oversubscription),
          "bandwidth below the core tier over bandwidth into it")
          .within(0.01, 1000),
      row("cluster.fabric.hop_latency_us", TRAINYARD_AT(cluster.fabric.hop_latency_us),
          "latency of one switch")
          .within(0, 1e6),
      row("cluster.fabric.base_latency_us", TRAINYARD_AT(cluster.fabric.base_latency_us),
          "latency from card to card below one ToR, hosts included")
          .within(0, 1e6),
  };
}

// Members of NcclProfile named as in NCCL's src/graph/tuning.cc.
std::vector<Row> nccl_rows() {
  std::vector<Row> rows{row("cluster.nccl.version", TRAINYARD_AT(cluster.nccl.version),
                            "NCCL release the constants are from")};
  const auto add = [&rows](std::string name, auto find, const char* doc) {
    rows.push_back(row("cluster.nccl." + name, find, doc).at_least(0));
  };
  add("ring_base_us", TRAINYARD_AT(cluster.nccl.ring_base_us),
      "fixed latency of a ring [LL, LL128, Simple]");
  add("tree_base_us", TRAINYARD_AT(cluster.nccl.tree_base_us),
      "fixed latency of a tree [LL, LL128, Simple]");
  add("ring_nvlink_us", TRAINYARD_AT(cluster.nccl.ring_nvlink_us),
      "latency of a ring step over NVLink [LL, LL128, Simple]");
  add("tree_nvlink_us", TRAINYARD_AT(cluster.nccl.tree_nvlink_us),
      "latency of a tree step over NVLink [LL, LL128, Simple]");
  add("ring_net_us", TRAINYARD_AT(cluster.nccl.ring_net_us),
      "latency of a ring step over the network [LL, LL128, Simple]");
  add("tree_net_us", TRAINYARD_AT(cluster.nccl.tree_net_us),
      "latency of a tree step over the network [LL, LL128, Simple]");
  add("launch_us", TRAINYARD_AT(cluster.nccl.launch_us),
      "launch and synchronisation of every collective");
  add("intra_channels", TRAINYARD_AT(cluster.nccl.intra_channels), "channels inside a node");
  add("intra_channel_gbs", TRAINYARD_AT(cluster.nccl.intra_channel_gbs),
      "bandwidth of a channel inside a node");
  add("inter_channels", TRAINYARD_AT(cluster.nccl.inter_channels), "channels between nodes");
  add("inter_channel_gbs", TRAINYARD_AT(cluster.nccl.inter_channel_gbs),
      "bandwidth of a channel between nodes");
  add("ll_max_gbs", TRAINYARD_AT(cluster.nccl.ll_max_gbs),
      "cap of the LL protocol with 1, 2 and 4 or more nodes");
  add("ring_ll128_channel_gbs", TRAINYARD_AT(cluster.nccl.ring_ll128_channel_gbs),
      "cap of an LL128 ring channel");
  add("tree_ll128_channel_gbs", TRAINYARD_AT(cluster.nccl.tree_ll128_channel_gbs),
      "cap of an LL128 tree channel with 1, 2 and 4 or more nodes");
  add("tree_simple_channel_gbs", TRAINYARD_AT(cluster.nccl.tree_simple_channel_gbs),
      "cap of a Simple tree channel with 1, 2 and 4 or more nodes");
  add("nvls_efficiency", TRAINYARD_AT(cluster.nccl.nvls_efficiency),
      "efficiency of NVLink SHARP; 0 = none");
  add("p2p_intra_us", TRAINYARD_AT(cluster.nccl.p2p_intra_us),
      "fixed time of a send inside a node");
  add("p2p_inter_us", TRAINYARD_AT(cluster.nccl.p2p_inter_us),
      "fixed time of a send between nodes");
  return rows;
}

}  // namespace

std::vector<Row> cluster_rows() {
  std::vector<Row> rows;
  for (auto part : {node_rows, fabric_rows, nccl_rows})
    for (Row& each : part()) rows.push_back(std::move(each));
  return rows;
}

}  // namespace trainyard
