#pragma once
#include <string>
#include <vector>

#include "tests/simulator/hand_built.h"

namespace trainyard {

// Every rank has a node, a card of one byte a nanosecond and 3 ns to any other. A message's flow
// leaves 2 ns after both sides are ready; a collective takes 10 ns more than its flows.
class FlowCosts final : public Costs {
 public:
  explicit FlowCosts(Wiring wiring = Wiring::ring) : wiring_(wiring) {}
  Time kernel(const KernelSpec& kernel) const override {
    return nanoseconds(static_cast<std::int64_t>(kernel.flops));
  }
  Time collective(Op, const GroupShape&, Bytes bytes) const override {
    return nanoseconds(bytes.value);
  }
  Time transfer(Bytes, const Route&) const override { return nanoseconds(1'000'000); }
  Time message_overhead(const Route&) const override { return nanoseconds(2); }
  Wiring wiring(Op, const GroupShape&, Bytes) const override { return wiring_; }
  Time over_flows(Op, const GroupShape&, Bytes, const OnWire& on_wire) const override {
    return on_wire.time + nanoseconds(10);
  }

 private:
  Wiring wiring_;
};

inline Job flow_job(std::int32_t pipeline, std::int32_t data) {
  Job job = hand_job(1, pipeline, data);
  job.cluster.nodes = pipeline * data;
  job.cluster.node.gpus = job.cluster.node.nics = 1;
  job.cluster.node.nic = job.cluster.node.pcie = {1e9};
  job.cluster.fabric.kind = "single-switch";
  job.cluster.fabric.rails = 1;
  job.cluster.fabric.base_latency_us = 0.003;
  job.network.model = "flow";
  return job;
}

inline SimulationResult run_flows(const Job& job, const std::vector<HandBuilt>& stages,
                                  SimulationOptions options = {}, Wiring wiring = Wiring::ring) {
  for (std::int32_t r = 0; r < job.gpus(); ++r) options.traced.push_back(RankId(r));
  return execute(job, set_of(stages), options, FlowCosts(wiring));
}

}  // namespace trainyard
