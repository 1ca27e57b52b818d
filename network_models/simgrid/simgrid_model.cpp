#include "network_models/simgrid/simgrid_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <simgrid/s4u.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "network_models/fabric/fabric.h"
#include "network_models/fabric/router.h"
#include "network_models/simgrid/transfer_zone.h"

namespace trainyard {
namespace {

namespace s4u = simgrid::s4u;

constexpr double kLastDate = 1e9;  // seconds; no step takes so long

class SimgridModel final : public NetworkModel {
 public:
  explicit SimgridModel(const Job& job);
  ~SimgridModel() override;

  std::optional<Time> closed_form(const Flow&) const override { return std::nullopt; }
  FlowId start(const Flow& flow, Time now) override { return start_in_step({&flow, 1}, now); }
  FlowId start_in_step(std::span<const Flow> flows, Time now) override;
  void cancel(FlowId flow, Time now) override;
  void set_capacity(LinkId link, double fraction, Time now) override;
  void route_around(LinkId link, bool down, Time now) override;
  LinkId link(std::string_view name) const override { return fabric_.named(name); }
  Time advance(Time limit, std::vector<FlowEnd>& ended) override;

 private:
  struct Transfer {
    std::vector<Flow> flows;
    std::vector<std::int32_t> links;  // as often as crossed
    double left = 0;                  // bytes of one queue pair
    Time latency;
    s4u::CommPtr comm;  // null: over a dead link, or all is sent
  };
  using Moving = std::map<FlowId, Transfer>;

  void find_paths(Transfer& transfer) const;
  void begin(Moving::iterator moving);
  void hold(Transfer& transfer);
  void go_to(Time now);
  void run_until(Time stop);
  Time clock() const;
  double limit(std::int32_t link) const { return fabric_.capacity(LinkId{link}); }
  bool crosses(const Transfer& transfer, LinkId link) const;

  Fabric fabric_;
  Router router_;
  Placement placement_;
  std::uint32_t queue_pairs_;
  s4u::Engine* engine_;
  TransferZone* zone_;
  s4u::Host *from_, *to_;
  std::vector<s4u::Link*> links_;
  std::vector<double> fraction_;
  double origin_;  // the engine's time at our zero
  Moving moving_;
  std::map<const s4u::Activity*, FlowId> flow_of_;
  std::set<s4u::Activity*> reported_;
  std::vector<s4u::CommPtr> aside_;
  std::set<std::pair<Time, FlowId>> arrivals_;
  Time now_;
  std::int64_t started_ = 0;
};

SimgridModel::SimgridModel(const Job& job)
    : fabric_(job.cluster),
      router_(fabric_, job.cluster.fabric.polarised, job.seed),
      placement_(job.placement()),
      queue_pairs_(static_cast<std::uint32_t>(job.network.qps_per_connection)),
      engine_(start_simgrid()),
      zone_(new TransferZone("fabric")),  // the engine's
      from_(zone_->create_host("from", std::vector<double>{1.0})),
      to_(zone_->create_host("to", std::vector<double>{1.0})),
      fraction_(static_cast<std::size_t>(fabric_.links()), 1.0),
      origin_(s4u::Engine::get_clock()) {
  links_.resize(fraction_.size());
  for (std::int32_t i = 0; i < fabric_.links(); ++i) {
    if (limit(i) == std::numeric_limits<double>::infinity()) continue;
    links_[i] = zone_->create_link(std::to_string(i), std::vector<double>{limit(i)});
    links_[i]->set_latency(0);
    links_[i]->seal();
  }
  zone_->get_iface()->seal();
  engine_->track_vetoed_activities(&reported_);
}

SimgridModel::~SimgridModel() {
  for (auto& [flow, transfer] : moving_)
    if (transfer.comm) hold(transfer);
  aside_.clear();
  delete engine_;
}

Time SimgridModel::clock() const {
  return std::max(now_, nanoseconds(std::llround((s4u::Engine::get_clock() - origin_) * 1e9)));
}

bool SimgridModel::crosses(const Transfer& transfer, LinkId link) const {
  return std::ranges::count(transfer.links, static_cast<std::int32_t>(link)) > 0;
}

FlowId SimgridModel::start_in_step(std::span<const Flow> flows, Time now) {
  go_to(now);
  Transfer transfer;
  transfer.flows.assign(flows.begin(), flows.end());
  transfer.left = static_cast<double>(flows.front().bytes.value) / queue_pairs_;
  find_paths(transfer);
  const FlowId id{started_++};
  begin(moving_.emplace(id, std::move(transfer)).first);
  return id;
}

void SimgridModel::find_paths(Transfer& transfer) const {
  transfer.links.clear();
  for (const Flow& flow : transfer.flows) {
    check(flow.bytes == transfer.flows.front().bytes, "flows in step have equal sizes");
    QueuePair pair{static_cast<std::int32_t>(placement_.slot(flow.source)),
                   static_cast<std::int32_t>(placement_.slot(flow.target)), flow.hash};
    for (; pair.number < queue_pairs_; ++pair.number) {
      const Path path = router_.path(pair);
      transfer.latency = std::max(transfer.latency, fabric_.latency(path.switches));
      for (const LinkId link : path.span())
        transfer.links.push_back(static_cast<std::int32_t>(link));
    }
  }
}

// Hands what is left to the engine, unless a link is down.
void SimgridModel::begin(Moving::iterator moving) {
  Transfer& transfer = moving->second;
  const auto dead = [this](std::int32_t link) { return fraction_[link] == 0; };
  if (std::ranges::any_of(transfer.links, dead)) return;
  std::vector<s4u::Link*> route;
  for (const std::int32_t link : transfer.links)
    if (links_[link] != nullptr) route.push_back(links_[link]);
  if (route.empty() || transfer.left <= 0) {
    transfer.left = 0;
    arrivals_.emplace(now_ + transfer.latency, moving->first);
    return;
  }
  zone_->set_route(std::move(route));
  transfer.comm = s4u::Comm::sendto_init(from_, to_);
  transfer.comm->set_payload_size(static_cast<std::uint64_t>(std::ceil(transfer.left)));
  transfer.comm->start();
  reported_.erase(transfer.comm.get());  // as not ready before it had a size
  flow_of_[transfer.comm.get()] = moving->first;
}

void SimgridModel::hold(Transfer& transfer) {
  transfer.left = transfer.comm->get_remaining();
  flow_of_.erase(transfer.comm.get());
  transfer.comm->cancel();
  aside_.push_back(std::exchange(transfer.comm, nullptr));
  // Frees its share now, not after the next event.
  engine_->run_until(s4u::Engine::get_clock());
}

void SimgridModel::cancel(FlowId flow, Time now) {
  go_to(now);
  const auto found = moving_.find(flow);
  check(found != moving_.end(), "flow {} is not in flight", index(flow));
  if (found->second.comm) hold(found->second);
  std::erase_if(arrivals_, [flow](const auto& arrival) { return arrival.second == flow; });
  moving_.erase(found);
}

void SimgridModel::set_capacity(LinkId link, double fraction, Time now) {
  go_to(now);
  const auto at = static_cast<std::size_t>(link);
  const bool again = fraction == 0 || fraction > fraction_[at];
  fraction_[at] = fraction;
  if (links_[at] != nullptr && fraction > 0)
    links_[at]->set_bandwidth(fraction * fabric_.capacity(link));
  if (!again) return;
  for (auto moving = moving_.begin(); moving != moving_.end(); ++moving) {
    Transfer& transfer = moving->second;
    if (!crosses(transfer, link)) continue;
    const bool waits = !transfer.comm;
    if (!waits) hold(transfer);
    if (!waits || transfer.left > 0) begin(moving);
  }
}

void SimgridModel::route_around(LinkId link, bool down, Time now) {
  go_to(now);
  router_.set_up(link, !down);
  if (!down) return;
  for (auto moving = moving_.begin(); moving != moving_.end(); ++moving) {
    Transfer& transfer = moving->second;
    if (!crosses(transfer, link)) continue;
    if (transfer.comm) hold(transfer);
    find_paths(transfer);
    if (transfer.left > 0) begin(moving);
  }
}

// To the first reports or to `stop`.
void SimgridModel::run_until(Time stop) {
  engine_->run_until(origin_ + std::min(kLastDate, to_seconds(stop)));
  now_ = clock();
  aside_.clear();
  for (const s4u::Activity* activity : reported_) {
    const auto found = flow_of_.find(activity);
    if (found == flow_of_.end()) continue;  // cancelled
    Transfer& transfer = moving_.at(found->second);
    check(activity->get_state() == s4u::Activity::State::FINISHED, "SimGrid lost a transfer");
    transfer.left = 0;
    arrivals_.emplace(now_ + transfer.latency, found->second);
    aside_.push_back(std::exchange(transfer.comm, nullptr));
    flow_of_.erase(found);
  }
  reported_.clear();
}

void SimgridModel::go_to(Time now) {
  check(now >= now_, "the network is at {} ns, past {} ns", now_.value, now.value);
  while (clock() < now && !(flow_of_.empty() && now == kNever)) {
    run_until(now);
  }
}

Time SimgridModel::advance(Time limit, std::vector<FlowEnd>& ended) {
  for (;;) {
    const Time next = arrivals_.empty() ? kNever : arrivals_.begin()->first;
    const Time stop = std::min(limit, next);
    const std::size_t sending = flow_of_.size();
    if (sending > 0 && clock() < stop) {
      run_until(stop);
      check(clock() < nanoseconds(std::llround(kLastDate * 1e9)), "SimGrid stands still");
      continue;
    }
    if (next > limit) {
      if (limit < kNever) go_to(limit);
      return limit;
    }
    now_ = std::max(now_, next);
    while (!arrivals_.empty() && arrivals_.begin()->first <= next) {
      ended.push_back({arrivals_.begin()->second, next});
      moving_.erase(arrivals_.begin()->second);
      arrivals_.erase(arrivals_.begin());
    }
    return next;
  }
}

// SimGrid shares links out max-min fairly at once and loses nothing.
void refuse_protocols(const Network& network) {
  if (network.congestion_control != "ideal")
    throw ConfigError(fmt::format(
        "network.congestion_control \"{}\": network.model \"simgrid\" knows no protocol; "
        "legal: \"ideal\", or network.model \"flow\" or \"packet\"",
        network.congestion_control));
  if (network.adaptive_retransmission)
    throw ConfigError(
        "network.adaptive_retransmission true: network.model \"simgrid\" has no timers; legal: "
        "false, or network.model \"flow\"");
}

}  // namespace

std::unique_ptr<NetworkModel> make_simgrid_model(const Job& job) {
  refuse_protocols(job.network);
  return std::make_unique<SimgridModel>(job);
}

}  // namespace trainyard
