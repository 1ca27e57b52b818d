#include "tools/trainyard/net_congestion.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "core/error.h"
#include "network_models/flow/flow_model.h"
#include "network_models/packet/packet_model.h"

namespace trainyard {
namespace {

constexpr double kSamples = 500;

struct Sender {
  std::int32_t source, target;
  std::string name;
};

// Hosts 0 to below - 1 are under one switch, the rest under another.
struct Layout {
  std::int32_t hosts, below;
  std::vector<Sender> senders;
  std::vector<std::string> meet;      // links with queues worth watching
  std::vector<std::string> upstream;  // links that they pause
};

Layout layout_of(const CongestionCase& asked) {
  const std::int32_t n = asked.flows;
  Layout out;
  if (asked.scenario == "incast") {
    out = {n + 1, n + 1, {}, {"nic_in:0"}, {"nic_out:1"}};
    for (std::int32_t i = 1; i <= n; ++i) out.senders.push_back({i, 0, fmt::format("flow {}", i)});
    return out;
  }
  if (asked.scenario != "parking-lot" && asked.scenario != "victim")
    throw ConfigError(
        fmt::format("unknown scenario '{}'; valid: incast, parking-lot, victim", asked.scenario));
  // Two flows share the uplink; one of them meets the others at its target.
  const bool lot = asked.scenario == "parking-lot";
  const std::int32_t others = lot ? 1 : std::max(1, n - 2), half = others + 2;
  out = {2 * half, half, {}, {}, {"tor_up:0:0", "nic_out:0"}};
  out.senders.push_back({0, half, lot ? "over both" : "into the incast"});
  out.senders.push_back({1, 2 * half - 1, lot ? "over the uplink" : "victim"});
  for (std::int32_t i = 0; i < others; ++i)
    out.senders.push_back(
        {half + 1 + i, half, lot ? "over the port" : fmt::format("incast {}", i)});
  out.meet = {fmt::format("nic_in:{}", half), "tor_up:0:0"};
  return out;
}

Cluster cluster_of(const CongestionCase& asked, const Layout& layout) {
  Cluster out;
  out.nodes = layout.hosts;
  out.node.gpus = out.node.nics = 1;
  out.node.nic = {asked.gbps * 1e9 / 8};
  out.node.nic_efficiency = 1;
  out.fabric.rails = 1;
  out.fabric.nodes_per_tor = layout.below;
  out.fabric.tors_per_pod = 2;
  out.fabric.tor_uplinks = 1;
  out.fabric.uplink = out.node.nic;
  // What a mark at the switch does comes back to it after twice the path of one switch.
  out.fabric.base_latency_us = asked.delay_us / 2;
  out.fabric.hop_latency_us = 1;
  return out;
}

// Either model, asked for the same.
class Probe {
 public:
  Probe(const CongestionCase& asked, const Layout& layout) {
    const Cluster cluster = cluster_of(asked, layout);
    const Network network{asked.model, 1, asked.control, asked.parameters};
    if (asked.model == "packet")
      packets_ = std::make_unique<PacketModel>(cluster, network, Placement{1, {}}, 1);
    else if (asked.model == "flow")
      flows_ = std::make_unique<FlowModel>(cluster, network, Placement{1, {}}, 1);
    else
      throw ConfigError(
          fmt::format("--model {}: valid: fluid (incast alone), packet, flow", asked.model));
  }

  NetworkModel& model() {
    return packets_ ? static_cast<NetworkModel&>(*packets_) : static_cast<NetworkModel&>(*flows_);
  }
  // Of packets those that have arrived, of flows the rate now, as bytes of a step.
  double bytes(FlowId flow, double step_s) {
    if (packets_) return packets_->hosts().received(packets_->queue_pairs(flow)[0]);
    return flows_->rate(flow).value * step_s;
  }
  bool counts_up() const { return packets_ != nullptr; }
  double queue_bytes(const std::string& link, Time now) {
    const auto at = static_cast<std::int32_t>(model().link(link));
    if (packets_) return packets_->ports().queue_bytes(at);
    return flows_->dynamics() != nullptr ? flows_->dynamics()->queue_bytes(at, now) : 0;
  }
  // Seconds so far that the link was paused; flows pause upstream links as long as `meets` is full.
  double paused_s(const std::string& link) {
    const auto at = static_cast<std::int32_t>(model().link(link));
    return packets_ ? static_cast<double>(packets_->ports().counters(at).paused) * 1e-12 : 0;
  }
  bool pauses(const std::string& link) {
    const auto at = static_cast<std::int32_t>(model().link(link));
    return flows_ && flows_->dynamics() != nullptr && flows_->dynamics()->paused(at);
  }

 private:
  std::unique_ptr<PacketModel> packets_;
  std::unique_ptr<FlowModel> flows_;
};

void go_to(NetworkModel& model, Time at) {
  std::vector<FlowEnd> ended;
  while (model.advance(at, ended) < at) {
  }
}

}  // namespace

CongestionSeries run_congestion(const CongestionCase& asked) {
  const Layout layout = layout_of(asked);
  Probe probe(asked, layout);
  CongestionSeries out;
  out.step_ms = asked.last_ms / kSamples;
  for (const Sender& sender : layout.senders) out.rates.push_back({sender.name, {}});
  for (const std::string& link : layout.meet) out.queues.push_back({link, {}});
  const auto& paused = probe.counts_up() ? layout.upstream : layout.meet;
  for (const std::string& link : paused) out.pauses.push_back({link, {}});
  const std::size_t count = layout.senders.size();
  std::vector<std::optional<FlowId>> flows(count);
  std::vector<double> before(count), paused_before(paused.size());
  // More than any flow can send.
  const Bytes endless{std::llround(asked.gbps * 1.3e8 * asked.last_ms * 1e-3 + 1e6)};
  std::vector<bool> gone(count);
  for (int step = 0; step < kSamples; ++step) {
    const double ms = step * out.step_ms;
    const Time now = microseconds(ms * 1e3), next = microseconds((ms + out.step_ms) * 1e3);
    for (std::size_t i = 0; i < count; ++i) {
      const double place = static_cast<double>(i);
      if (!flows[i] && !gone[i] && place * asked.join_ms <= ms)
        flows[i] = probe.model().start(
            {RankId{layout.senders[i].source}, RankId{layout.senders[i].target}, endless}, now);
      // The last to come is the first to leave; the first stays.
      if (flows[i] && i > 0 && asked.leave_ms > 0 && asked.last_ms - place * asked.leave_ms <= ms) {
        probe.model().cancel(*flows[i], now);
        flows[i].reset();
        gone[i] = true;
      }
    }
    go_to(probe.model(), next);
    const double step_s = out.step_ms * 1e-3;
    for (std::size_t i = 0; i < count; ++i) {
      const double bytes = flows[i] ? probe.bytes(*flows[i], step_s) : 0;
      const double sent = flows[i] && probe.counts_up() ? bytes - before[i] : bytes;
      before[i] = bytes;
      out.rates[i].values.push_back(sent / step_s * 8e-9);
    }
    for (std::size_t i = 0; i < layout.meet.size(); ++i)
      out.queues[i].values.push_back(probe.queue_bytes(layout.meet[i], next) * 1e-3);
    for (std::size_t i = 0; i < paused.size(); ++i) {
      const double so_far = probe.paused_s(paused[i]);
      const double part = probe.counts_up() ? (so_far - paused_before[i]) / step_s
                                            : (probe.pauses(paused[i]) ? 1 : 0);
      paused_before[i] = so_far;
      out.pauses[i].values.push_back(part);
    }
  }
  return out;
}

}  // namespace trainyard
