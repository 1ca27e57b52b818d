// Cost of a flow in the flow model, from start to end: paths, rates and ends, and how it grows with
// the cluster. Every card of MegaScale's fabric sends one flow at a time.
#include <benchmark/benchmark.h>

#include "core/random.h"
#include "network_models/flow/flow_model.h"
#include "network_models/packet/packet_model.h"

namespace trainyard {
namespace {

// NSDI 2024, section 3.6.
Cluster megascale(std::int32_t gpus) {
  Cluster cluster;
  cluster.nodes = gpus / 8;
  cluster.node.nvlink = gigabytes_per_second(240);
  cluster.node.pcie = gigabytes_per_second(25.6);
  cluster.node.nic = gigabytes_per_second(25);
  cluster.fabric.uplink = gigabytes_per_second(50);
  return cluster;
}

void drain(FlowModel& model, std::vector<FlowEnd>& ended) {
  while (model.advance(kNever, ended) < kNever) {
  }
}

// A flow from every GPU to one far away, of random sizes, so that each ends by itself; starts
// spread over `window_ms`.
void run(benchmark::State& state, std::int64_t window_ms) {
  const auto gpus = static_cast<std::int32_t>(state.range(0));
  const PhiloxKey key = random_key(1, "network benchmark");
  std::int64_t solved = 0;
  for (auto _ : state) {
    FlowModel model(megascale(gpus), Network{"flow", 1}, Placement{8, {}}, 1);
    std::vector<FlowEnd> ended;
    for (std::int32_t i = 0; i < gpus; ++i) {
      const Time at = microseconds(static_cast<double>(window_ms) * 1e3 * i / gpus);
      while (model.advance(at, ended) < at) {
      }
      const auto bytes = static_cast<std::int64_t>(100'000'000 * (1 + philox(key, i)[0] * 0x1p-32));
      const std::int32_t from = static_cast<std::int32_t>((i * 7919LL) % gpus);
      model.start({RankId{from}, RankId{(from + gpus / 2) % gpus}, Bytes{bytes}}, at);
    }
    drain(model, ended);
    if (ended.size() != static_cast<std::size_t>(gpus)) state.SkipWithError("flows were lost");
    solved = model.solved_flows();
  }
  state.counters["flows/s"] =
      benchmark::Counter(gpus, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["rates changed per flow"] = static_cast<double>(solved) / gpus;
}

void AllAtOnce(benchmark::State& state) { run(state, 0); }
void OneAfterTheOther(benchmark::State& state) { run(state, 5); }

// All into one card, of `flows` that end one by one.
void Incast(benchmark::State& state) {
  const auto flows = static_cast<std::int32_t>(state.range(0));
  std::size_t ends = 0;
  for (auto _ : state) {
    FlowModel model(megascale(8192), Network{"flow", 1}, Placement{8, {}}, 1);
    std::vector<FlowEnd> ended;
    for (std::int32_t i = 0; i < flows; ++i)
      model.start({RankId{8 + i}, RankId{0}, Bytes{1'000'000 + 1000 * i}}, Time{});
    drain(model, ended);
    ends = ended.size();
  }
  if (ends != static_cast<std::size_t>(flows)) state.SkipWithError("flows were lost");
  state.counters["flows/s"] =
      benchmark::Counter(flows, benchmark::Counter::kIsIterationInvariantRate);
}

// Every card of one rail to every other, all at once and of random sizes, through uplinks with a
// quarter of the cards' rate: each flow waits for others on several links.
void AllToAll(benchmark::State& state) {
  const auto nodes = static_cast<std::int32_t>(state.range(0));
  Cluster cluster = megascale(8 * nodes);
  cluster.fabric.nodes_per_tor = 8;
  cluster.fabric.tor_uplinks = 1;
  const PhiloxKey key = random_key(1, "all-to-all");
  const std::int32_t flows = nodes * (nodes - 1);
  std::size_t ends = 0;
  for (auto _ : state) {
    FlowModel model(cluster, Network{"flow", 1}, Placement{8, {}}, 1);
    std::vector<FlowEnd> ended;
    for (std::int32_t i = 0; i < nodes * nodes; ++i) {
      if (i / nodes == i % nodes) continue;
      const auto bytes = static_cast<std::int64_t>(1'000'000 * (1 + philox(key, i)[0] * 0x1p-32));
      model.start({RankId{i / nodes * 8}, RankId{i % nodes * 8}, Bytes{bytes}}, Time{});
    }
    drain(model, ended);
    ends = ended.size();
  }
  if (ends != static_cast<std::size_t>(flows)) state.SkipWithError("flows were lost");
  state.counters["flows/s"] =
      benchmark::Counter(flows, benchmark::Counter::kIsIterationInvariantRate);
}

// Messages, one after the other, between cards that a ring in step crosses too: each halves the
// ring's rate while it lasts. What a message costs should hardly grow with the ring.
void BesideARing(benchmark::State& state) {
  const auto nodes = static_cast<std::int32_t>(state.range(0));
  const auto card = [nodes](std::int64_t i) {
    return RankId{static_cast<std::int32_t>(i % nodes * 8)};
  };
  FlowModel model(megascale(8 * nodes), Network{"flow", 1}, Placement{8, {}}, 1);
  std::vector<Flow> edges;
  for (std::int32_t i = 0; i < nodes; ++i)
    edges.push_back({card(i), card(i + 1), Bytes{1'000'000'000'000'000}});
  model.start_in_step(edges, Time{});
  std::vector<FlowEnd> ended;
  Time now;
  std::int64_t i = 0;
  for (auto _ : state) {
    model.start({card(i), card(i + 2), Bytes{1'000'000}}, now);
    now = model.advance(kNever, ended);
    ++i;
  }
  if (ended.size() != static_cast<std::size_t>(i)) state.SkipWithError("messages were lost");
}

// Cards of 200 Gb/s that send 2 MB each to one half the cluster away: packets, and packets over a
// link, that the packet model follows in a second.
void Packets(benchmark::State& state) {
  const auto gpus = static_cast<std::int32_t>(state.range(0));
  std::int64_t hops = 0;
  for (auto _ : state) {
    PacketModel model(megascale(gpus), Network{"packet", 1, "dcqcn"}, Placement{8, {}}, 1);
    std::vector<FlowEnd> ended;
    for (std::int32_t i = 0; i < gpus; ++i)
      model.start({RankId{i}, RankId{(i + gpus / 2) % gpus}, Bytes{2'000'000}}, Time{});
    while (model.advance(kNever, ended) < kNever) {
    }
    if (ended.size() != static_cast<std::size_t>(gpus)) state.SkipWithError("flows were lost");
    hops = model.ports().hops();
  }
  state.counters["packets/s"] =
      benchmark::Counter(2000.0 * gpus, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["hops/s"] =
      benchmark::Counter(static_cast<double>(hops), benchmark::Counter::kIsIterationInvariantRate);
}

BENCHMARK(Packets)->Arg(64)->Arg(256)->Unit(benchmark::kMillisecond);
BENCHMARK(AllAtOnce)->Arg(1024)->Arg(12288)->Arg(49152)->Unit(benchmark::kMillisecond);
BENCHMARK(OneAfterTheOther)->Arg(1024)->Arg(12288)->Arg(49152)->Unit(benchmark::kMillisecond);
BENCHMARK(Incast)->RangeMultiplier(4)->Range(64, 4096)->Unit(benchmark::kMillisecond);
BENCHMARK(AllToAll)->Arg(16)->Arg(32)->Arg(64)->Unit(benchmark::kMillisecond);
BENCHMARK(BesideARing)->Arg(24)->Arg(192)->Arg(1536);

}  // namespace
}  // namespace trainyard
