#include <algorithm>

#include "core/error.h"
#include "tools/trainyard/net_ring.h"

namespace trainyard {
namespace {

constexpr std::int64_t kAtOnce = 8;           // peers that a GPU sends to at the same time
constexpr std::int64_t kMostFlows = 200'000;  // of the batches that are run
constexpr Bytes kEach{std::int64_t{1} << 40};

// GPUs of every group, by place in it.
std::vector<std::vector<std::int32_t>> group_gpus(const Job& job, const RingLayout& layout) {
  const std::int32_t gpus = job.cluster.node.gpus;
  const auto groups = ring_nodes(job, layout);
  const auto shared = std::min<std::int64_t>(layout.groups, gpus / layout.per_node);
  std::vector<std::vector<std::int32_t>> out;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto first = static_cast<std::int32_t>(group % shared) * layout.per_node;
    auto& members = out.emplace_back();
    for (const std::int32_t node : groups[group])
      for (std::int32_t i = 0; i < layout.per_node; ++i) members.push_back(node * gpus + first + i);
  }
  return out;
}

using Groups = std::vector<std::vector<std::int32_t>>;

// Starts what every GPU sends to those `first` to `last` places further on, if they are on other
// nodes.
std::vector<FlowId> start_batch(FlowModel& model, const Groups& groups,
                                std::pair<std::int64_t, std::int64_t> places, Time now) {
  const std::int32_t per_node = model.fabric().node().gpus;
  std::vector<FlowId> out;
  for (const auto& gpus : groups)
    for (std::size_t from = 0; from < gpus.size(); ++from)
      for (std::int64_t place = places.first; place <= places.second; ++place) {
        const std::int32_t source = gpus[from];
        const std::int32_t target = gpus[(from + static_cast<std::size_t>(place)) % gpus.size()];
        if (source / per_node == target / per_node) continue;
        out.push_back(model.start({RankId{source}, RankId{target}, kEach}, now));
      }
  return out;
}

// Of a card, of the slowest flow while all of a batch are on the way.
void look_at_flows(FlowModel& model, const std::vector<FlowId>& flows, RingReport& report) {
  const double card = std::min(model.fabric().capacity(LinkKind::nic_out),
                               model.fabric().capacity(LinkKind::pcie_out));
  for (const FlowId flow : flows) {
    if (const std::string& why = model.obstacle(flow); !why.empty())
      throw ConfigError(fmt::format("--link: {}, and a collective needs all its pairs", why));
    const double rate = model.rate(flow).value / card;
    if (rate >= report.slowest_edge) continue;
    report.slowest_edge = rate;
    report.slowest_link = model.fabric().name(model.bottleneck(flow));
    report.slowest_pairs = model.queue_pairs(model.bottleneck(flow));
  }
}

}  // namespace

RingReport run_pairs(const Job& job, const RingLayout& layout) {
  FlowModel model = make_flows(job, layout);
  const Groups groups = group_gpus(job, layout);
  RingReport report;
  report.pattern = Pattern::pairs;
  report.batches = (layout.gpus - 2) / kAtOnce + 1;
  const std::int64_t of_batch = layout.gpus * kAtOnce * layout.groups;
  report.batches_run = std::clamp<std::int64_t>(kMostFlows / of_batch, 1, report.batches);
  Time now;
  for (std::int64_t run = 0; run < report.batches_run; ++run) {
    const std::int64_t batch = run * report.batches / report.batches_run;
    const std::int64_t last = std::min((batch + 1) * kAtOnce, layout.gpus - 1);
    const auto flows = start_batch(model, groups, {batch * kAtOnce + 1, last}, now);
    if (flows.empty()) continue;
    report.flows += static_cast<std::int64_t>(flows.size());
    look_at_flows(model, flows, report);
    std::vector<FlowEnd> ended;
    while (ended.size() < flows.size()) now = model.advance(kNever, ended);
  }
  const Fabric& fabric = model.fabric();
  const int switches = fabric.pods() > 1 ? 5 : fabric.tor_sets() > 1 ? 3 : 1;
  const double latency_us = to_microseconds(fabric.latency(switches));
  // What each GPU's data take at this pace, as CollectiveTimer turns wires into time.
  const double ranks = static_cast<double>(layout.gpus), per_node = layout.per_node;
  const double sent = static_cast<double>(kEach.value) * (ranks - per_node);
  const double all_s = to_seconds(now) * static_cast<double>(report.batches) /
                       static_cast<double>(report.batches_run);
  report.wires.assign(groups.size(), {{sent * per_node / all_s}, latency_us});
  return report;
}

}  // namespace trainyard
