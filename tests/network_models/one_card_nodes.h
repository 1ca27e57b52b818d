#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/config/job.h"
#include "network_models/network_model.h"

namespace trainyard {

// Nodes of one GPU and one card of `line` bytes per second, `below` of them below each ToR switch,
// which has one uplink as fast; tests start flows on a model of them and go on in its time.
template <class Model>
class OneCardNodes : public testing::Test {
 protected:
  OneCardNodes(double line, double base_latency_us) {
    cluster.node.gpus = cluster.node.nics = 1;
    cluster.node.nic = {line};
    cluster.node.nic_efficiency = 1;
    cluster.fabric.rails = 1;
    cluster.fabric.tors_per_pod = 2;
    cluster.fabric.tor_uplinks = 1;
    cluster.fabric.uplink = {line};
    cluster.fabric.hop_latency_us = 1;
    cluster.fabric.base_latency_us = base_latency_us;
  }
  void build(int nodes, int below, const Network& network) {
    cluster.nodes = nodes;
    cluster.fabric.nodes_per_tor = below;
    model = std::make_unique<Model>(cluster, network, Placement{1, {}}, 1);
  }
  FlowId start(int source, int target, double bytes, Time at = {}) {
    return model->start({RankId{source}, RankId{target}, Bytes{static_cast<std::int64_t>(bytes)}},
                        at);
  }
  // When all flows have ended, in order.
  std::vector<FlowEnd> drain() {
    std::vector<FlowEnd> ended;
    while (model->advance(kNever, ended) < kNever) {
    }
    return ended;
  }
  void go_to(Time at) {
    std::vector<FlowEnd> ended;
    while (model->advance(at, ended) < at) {
    }
  }

  Cluster cluster;
  std::unique_ptr<Model> model;
};

}  // namespace trainyard
