#include "network_models/packet/packet_model.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace trainyard {
namespace {

const Cluster& small_enough(const Cluster& cluster) {
  const std::int64_t gpus = std::int64_t{cluster.nodes} * cluster.node.gpus;
  if (gpus > PacketModel::kMostGpus)
    throw ConfigError(
        fmt::format("network.model \"packet\": the cluster has {} GPUs; every packet is "
                    "followed for at most {}; use \"flow\"",
                    gpus, PacketModel::kMostGpus));
  return cluster;
}

ControlParameters control_of(const Cluster& cluster, const Network& network) {
  const ControlParameters out = control_parameters(cluster, network);
  if (out.control == Control::ideal)
    throw ConfigError(
        "network.congestion_control \"ideal\": packets need a protocol; legal with "
        "network.model \"packet\": \"none\", \"dcqcn\", \"swift\", \"hybrid\"");
  if (network.adaptive_retransmission)
    throw ConfigError(
        "network.adaptive_retransmission true: cards of network.model \"packet\" have one timer; "
        "legal: false, or network.model \"flow\"");
  return out;
}

Retransmission retransmission_of(const Transport& transport, const Network& network) {
  return {transport.timer(), transport.retries(), static_cast<double>(network.send_window.value)};
}

}  // namespace

PacketModel::PacketModel(const Cluster& cluster, const Network& network, const Placement& placement,
                         std::uint64_t seed)
    : fabric_(small_enough(cluster)),
      router_(fabric_, cluster.fabric.polarised, seed),
      placement_(placement),
      queue_pairs_(static_cast<std::uint32_t>(network.qps_per_connection)),
      transport_(network, seed),
      packet_bytes_(control_of(cluster, network).dcqcn.packet_bytes),
      ports_(fabric_, switch_buffers(cluster, control_of(cluster, network)), packet_bytes_, seed),
      hosts_(control_of(cluster, network), packet_bytes_, retransmission_of(transport_, network),
             ports_) {}

QueuePair PacketModel::ends(const Transfer& transfer, std::size_t pair) const {
  const Flow& flow = transfer.flows[pair / queue_pairs_];
  return {static_cast<std::int32_t>(placement_.slot(flow.source)),
          static_cast<std::int32_t>(placement_.slot(flow.target)), flow.hash,
          static_cast<std::uint32_t>(pair % queue_pairs_)};
}

FlowId PacketModel::start_in_step(std::span<const Flow> flows, Time now) {
  go_to(now);
  const FlowId id{started_++};
  Transfer& transfer = transfers_[index(id)];
  transfer.flows.assign(flows.begin(), flows.end());
  transfer.bytes = static_cast<double>(flows.front().bytes.value);
  transfer.started = now;
  for (std::size_t i = 0; i < flows.size() * queue_pairs_; ++i) {
    const double bytes = std::ceil(transfer.bytes / queue_pairs_);
    const std::int32_t at = ports_.add_path(router_.path(ends(transfer, i)));
    if (ports_.path(at).empty() || bytes < 1) continue;
    flow_of_.push_back(index(id));
    ++transfer.open;
    transfer.pairs.push_back(hosts_.open({at, bytes}, now.value * kPsPerNs));
  }
  if (transfer.open == 0) {
    ended_.push_back({id, now});
    transfers_.erase(index(id));
  }
  return id;
}

std::span<const std::int32_t> PacketModel::queue_pairs(FlowId flow) const {
  const auto found = transfers_.find(index(flow));
  check(found != transfers_.end(), "flow {} is not in flight", index(flow));
  return found->second.pairs;
}

void PacketModel::cancel(FlowId flow, Time now) {
  go_to(now);
  for (const std::int32_t pair : queue_pairs(flow)) hosts_.close(pair);
  transfers_.erase(index(flow));
}

void PacketModel::set_capacity(LinkId link, double fraction, Time now) {
  go_to(now);
  ports_.set_speed(static_cast<std::int32_t>(link), fraction, now.value * kPsPerNs, hosts_);
}

void PacketModel::route_around(LinkId link, bool down, Time now) {
  go_to(now);
  router_.set_up(link, !down);
  if (!down) return;
  std::vector<std::int64_t> ids;
  for (const auto& [id, transfer] : transfers_) ids.push_back(id);
  std::ranges::sort(ids);
  for (const std::int64_t id : ids) {
    const Transfer& transfer = transfers_[id];
    for (std::size_t i = 0; i < transfer.pairs.size(); ++i) {
      const std::int32_t pair = transfer.pairs[i];
      const std::vector<std::int32_t>& over = ports_.path(hosts_.path(pair));
      if (std::ranges::find(over, static_cast<std::int32_t>(link)) == over.end()) continue;
      // Without another path it keeps to the dead one, until it gives up.
      if (const auto other = router_.find(ends(transfer, i)))
        hosts_.reroute(pair, ports_.add_path(*other), now.value * kPsPerNs);
    }
  }
}

void PacketModel::go_to(Time now) {
  check(now >= now_, "the network is at {} ns, past {} ns", now_.value, now.value);
  run_until(now.value * kPsPerNs);
  now_ = now;
}

// Handles events before `ps`.
void PacketModel::run_until(std::int64_t ps) {
  EventQueue& events = ports_.events();
  while (!failure_ && !events.empty() && events.front().at < ps) {
    const PacketEvent event = events.front();
    events.pop();
    if (event.kind <= std::uint8_t(PacketEventKind::pause))
      ports_.handle(event, hosts_);
    else
      hosts_.handle(event);
    if (hosts_.given_up() >= 0) {
      now_ = std::max(now_, nanoseconds(event.at / kPsPerNs));
      return give_up(hosts_.given_up());
    }
    if (!hosts_.finished()) continue;
    now_ = std::max(now_, nanoseconds((event.at + kPsPerNs - 1) / kPsPerNs));
    end_finished();
  }
}

void PacketModel::end_finished() {
  for (const std::int32_t pair : hosts_.take_finished()) {
    hosts_.close(pair);
    const std::int64_t id = flow_of_[pair];
    const auto found = transfers_.find(id);
    if (found == transfers_.end() || --found->second.open > 0) continue;
    const Transfer& transfer = found->second;
    const double card = fabric_.capacity(LinkKind::nic_out);
    const double seconds = to_seconds(now_ - transfer.started);
    if (ports_.propagation(hosts_.path(pair)) > 0)
      slowest_ = std::min(slowest_, transfer.bytes / seconds / card);
    ended_.push_back({FlowId{id}, now_});
    transfers_.erase(found);
  }
}

void PacketModel::give_up(std::int32_t pair) {
  const Transfer& transfer = transfers_.at(flow_of_[pair]);
  const auto at =
      static_cast<std::size_t>(std::ranges::find(transfer.pairs, pair) - transfer.pairs.begin());
  const Flow& flow = transfer.flows[at / queue_pairs_];
  const QueuePair between = ends(transfer, at);
  const std::int32_t gpus = fabric_.node().gpus;
  std::string why = "no packet is acknowledged";
  for (const std::int32_t link : ports_.path(hosts_.path(pair)))
    if (ports_.down(link)) why = fmt::format("{} is down", fabric_.name(LinkId{link}));
  const std::string from_to =
      fmt::format("from GPU {} of node {} to GPU {} of node {} (ranks {} and {})",
                  between.source % gpus, between.source / gpus, between.target % gpus,
                  between.target / gpus, index(flow.source), index(flow.target));
  failure_ = transport_.error(now_, fmt::format("nothing arrives {}: {}", from_to, why));
}

Time PacketModel::advance(Time limit, std::vector<FlowEnd>& ended) {
  if (failure_) return limit;
  while (!failure_ && ended_.empty() && !transfers_.empty() && !ports_.events().empty()) {
    const std::int64_t at = ports_.events().front().at / kPsPerNs;
    if (at >= limit.value) break;
    run_until((at + 1) * kPsPerNs);
  }
  if (failure_ && ended_.empty()) return failure_->at;
  if (ended_.empty()) {
    if (limit < kNever) now_ = std::max(now_, limit);
    return limit;
  }
  const Time reached = ended_.front().at;
  std::size_t told = 0;
  while (told < ended_.size() && ended_[told].at == reached) ended.push_back(ended_[told++]);
  ended_.erase(ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(told));
  now_ = std::max(now_, reached);
  return reached;
}

std::optional<NetworkUse> PacketModel::use(Time whole) const {
  NetworkUse out;
  out.slowest_flow = slowest_;
  for (std::int32_t i = 0; i < fabric_.links(); ++i) {
    const LinkKind kind = fabric_.place(LinkId{i}).kind;
    if (kind < LinkKind::nic_out) continue;
    const double can = fabric_.capacity(kind) * to_seconds(whole);
    out.busiest_link = std::max(out.busiest_link, ports_.counters(i).carried / can);
  }
  return out;
}

}  // namespace trainyard
