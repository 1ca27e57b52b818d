#include "core/config/schema_rows.h"

namespace trainyard {
namespace {

std::vector<Row> node_rows() {
  return {
      row_of_preset("cluster.preset", "file of scenarios/clusters, without .toml, merged below"),
      row_of_preset("cluster.profile",
                    "file of cluster keys, such as `trainyard calibrate` writes; takes the place "
                    "of cluster.preset and lies below all other keys"),
      row("cluster.nodes", TRAINYARD_AT(cluster.nodes),
          "servers; default: as many as the ranks need")
          .within(1, 1e6)
          .computed(),
      row("cluster.node.gpus", TRAINYARD_AT(cluster.node.gpus), "GPUs of a node").within(1, 1024),
      row("cluster.node.nvlink_gbs", TRAINYARD_AT(cluster.node.nvlink),
          "usable NVLink bandwidth of a GPU in one direction; 0 = PCIe instead")
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
      row("cluster.node.load_sequence_us", TRAINYARD_AT(cluster.node.load_sequence_us),
          "time of one loader worker to read and prepare one sequence")
          .at_least(0),
      row("cluster.node.gpu_spread", TRAINYARD_AT(cluster.node.gpu_spread),
          "relative standard deviation of kernel times from GPU to GPU; the slowest sets the pace")
          .within(0, 0.5),
      row("cluster.node.cores", TRAINYARD_AT(cluster.node.cores),
          "processor cores that the ranks of a node share for all their work; 0 = each rank has a "
          "GPU of its own")
          .within(0, 1e4),
  };
}

std::vector<Row> fabric_rows() {
  return {
      row_of_names("cluster.fabric.kind", TRAINYARD_AT(cluster.fabric.kind),
                   {{"clos", "ToR, aggregation and core tiers"},
                    {"single-switch", "one switch a rail for all nodes"}},
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
      row("cluster.fabric.uplink_gbps", TRAINYARD_AT(cluster.fabric.uplink),
          "rate of one uplink in one direction")
          .within(0, 1e5),
      row("cluster.fabric.oversubscription", TRAINYARD_AT(cluster.fabric.oversubscription),
          "bandwidth below the core tier over bandwidth into it")
          .within(1, 1000),
      row("cluster.fabric.adaptive_routing", TRAINYARD_AT(cluster.fabric.adaptive_routing),
          "switches spread packets by load, so flows do not collide"),
      row("cluster.fabric.pinned", TRAINYARD_AT(cluster.fabric.pinned),
          "paths are pinned: a target's place below its ToR switch picks the uplink, its ToR "
          "switch the "
          "port into the core"),
      row("cluster.fabric.polarised", TRAINYARD_AT(cluster.fabric.polarised),
          "all switches hash alike, so that flows use few of the uplinks into the core"),
      row("cluster.fabric.hop_latency_us", TRAINYARD_AT(cluster.fabric.hop_latency_us),
          "latency of a switch beyond the first")
          .within(0, 1e6),
      row("cluster.fabric.base_latency_us", TRAINYARD_AT(cluster.fabric.base_latency_us),
          "latency from card to card below one ToR, hosts included")
          .within(0, 1e6),
      row("cluster.fabric.switch_buffer", TRAINYARD_AT(cluster.fabric.switch_buffer),
          "packet buffer of a switch, shared by its ports; 0: 16 MB for each 50 Gb/s of a card")
          .within(0, 1e12),
      row("cluster.fabric.pfc_share", TRAINYARD_AT(cluster.fabric.pfc_share),
          "part of a switch's free buffer that packets from one port may fill until it pauses "
          "its neighbour")
          .within(0.001, 64),
      row("cluster.fabric.pfc", TRAINYARD_AT(cluster.fabric.pfc),
          "full switches pause their neighbours; without it they drop packets"),
  };
}

// [cluster.nccl.NAME] of a protocol; `find` gives its member of NcclProfile.
template <class Find>
void add_protocol(std::vector<Row>& rows, const std::string& name, Find find) {
  const auto add = [&](const char* key, auto member, const char* doc) {
    const auto at = [ find, member ](auto& job) -> auto& { return find(job).*member; };
    rows.push_back(row("cluster.nccl." + name + "." + key, at, doc).at_least(0));
  };
  using Protocol = NcclProfile::Protocol;
  add("base_us", &Protocol::base_us, "fixed latency of a ring or tree");
  add("nvlink_us", &Protocol::nvlink_us, "latency of a step inside a node");
  add("ring_net_us", &Protocol::ring_net_us, "latency of a ring's step between nodes, less wire");
  add("tree_net_us", &Protocol::tree_net_us, "latency of a tree's step between nodes, less wire");
  add("fraction", &Protocol::fraction, "data rate relative to the link's");
  add("max_gbs", &Protocol::max_gbs, "limit of the data rate; 0 = none");
}

std::vector<Row> nccl_rows() {
  std::vector<Row> rows{row("cluster.nccl.version", TRAINYARD_AT(cluster.nccl.version),
                            "NCCL release the constants are from")};
  const auto add = [&rows](std::string name, auto find, const char* doc) {
    rows.push_back(row("cluster.nccl." + name, find, doc).at_least(0));
  };
  add("launch_us", TRAINYARD_AT(cluster.nccl.launch_us),
      "launch and synchronisation of every collective");
  add("in_training", TRAINYARD_AT(cluster.nccl.in_training),
      "time of a collective or message amid a training step, relative to the same one alone");
  add("tree_fraction", TRAINYARD_AT(cluster.nccl.tree_fraction),
      "bandwidth of a tree relative to a ring's");
  add("nvls_gbs", TRAINYARD_AT(cluster.nccl.nvls_gbs),
      "all-reduce in the NVLink switches, bytes reduced a second; 0 = none");
  add("nvls_us", TRAINYARD_AT(cluster.nccl.nvls_us), "fixed latency of that all-reduce");
  add("nvls_net_us", TRAINYARD_AT(cluster.nccl.nvls_net_us),
      "latency of its tree's step between nodes");
  add("all_to_all_us", TRAINYARD_AT(cluster.nccl.all_to_all_us), "fixed time of an all-to-all");
  add("all_to_all_peer_us", TRAINYARD_AT(cluster.nccl.all_to_all_peer_us),
      "further time of an all-to-all per rank");
  add("all_to_all_fraction", TRAINYARD_AT(cluster.nccl.all_to_all_fraction),
      "data rate of an all-to-all relative to the link's");
  add("p2p_intra_us", TRAINYARD_AT(cluster.nccl.p2p_intra_us),
      "fixed time of a send inside a node");
  add("p2p_inter_us", TRAINYARD_AT(cluster.nccl.p2p_inter_us),
      "fixed time of a send between nodes");
  add_protocol(rows, "ll", TRAINYARD_AT(cluster.nccl.ll));
  add_protocol(rows, "ll128", TRAINYARD_AT(cluster.nccl.ll128));
  add_protocol(rows, "simple", TRAINYARD_AT(cluster.nccl.simple));
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
