#pragma once
#include "core/config/job.h"
#include "core/program/program.h"
#include "simulator/timing.h"

namespace trainyard {

// How a message travels from one rank to another.
struct Route {
  Tier tier = Tier::node;
  std::int32_t concurrent = 1;  // messages of the same pattern that leave the node together
  auto operator<=>(const Route&) const = default;
};

// What the flows of a collective took, and how they lay.
struct OnWire {
  Time time;
  Time latency;                // of the longest path
  double mean_latency_us = 0;  // over all paths
  Bytes of_node;  // that left the busiest node, had each of its cards sent equally much
};

// What work costs on a cluster whose ranks do nothing else, before scales and measured times.
// The seam between the executor and the models of kernels and collectives.
class Costs {
 public:
  virtual ~Costs() = default;
  virtual Time kernel(const KernelSpec& kernel) const = 0;
  virtual Time collective(Op op, const GroupShape& shape, Bytes bytes) const = 0;
  virtual Time transfer(Bytes bytes, const Route& route) const = 0;
  // For networks whose flows meet: what a message takes before it leaves as a flow, and how much of
  // the rest of its time it is on the wire; how the flows of a collective lie, and what it takes
  // when they took so long.
  virtual Time message_overhead(const Route&) const { return {}; }
  virtual double message_on_wire() const { return 1; }
  virtual Wiring wiring(Op, const GroupShape&, Bytes) const { return Wiring::none; }
  virtual Time over_flows(Op op, const GroupShape& shape, Bytes bytes, const OnWire&) const {
    return collective(op, shape, bytes);
  }
  // What each member works for a collective or either side for a message before its part of the
  // time above begins: where ranks compute with the cores that also move their data.
  virtual Time collective_work(Op, const GroupShape&, Bytes) const { return {}; }
  virtual Time transfer_work(Bytes) const { return {}; }
  // How much of each kernel's time is the pace of the slowest GPU: kernel() / the mean GPU's.
  virtual double slowest_gpu() const { return 1; }
};

// The kernel profile and NCCL model of the job's cluster.
class ModelCosts final : public Costs {
 public:
  explicit ModelCosts(const Job& job);
  Time kernel(const KernelSpec& kernel) const override;
  Time collective(Op op, const GroupShape& shape, Bytes bytes) const override;
  Time transfer(Bytes bytes, const Route& route) const override;
  Time message_overhead(const Route& route) const override;
  double message_on_wire() const override { return 1 / in_training_; }
  Wiring wiring(Op op, const GroupShape& shape, Bytes bytes) const override;
  Time over_flows(Op op, const GroupShape& shape, Bytes bytes,
                  const OnWire& on_wire) const override;
  Time collective_work(Op op, const GroupShape& shape, Bytes bytes) const override;
  Time transfer_work(Bytes bytes) const override;
  double slowest_gpu() const override { return slowest_gpu_; }

 private:
  // A collective or message that takes `alone` by itself, amid a training step.
  Time in_training(Time alone) const { return seconds(to_seconds(alone) * in_training_); }

  KernelTimer kernels_;
  CollectiveTimer collectives_;
  double slowest_gpu_, in_training_;
};

}  // namespace trainyard
