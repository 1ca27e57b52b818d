// What flows do about dead links and lost packets.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "network_models/flow/flow_model.h"

namespace trainyard {

double FlowModel::card_rate() const {
  return std::min(fabric_.capacity(LinkKind::nic_out), fabric_.capacity(LinkKind::pcie_out));
}

double FlowModel::turns_of_a_card() const {
  double most = queue_pairs_;
  for (const MaxMin::Use& use : uses_) {
    const LinkKind kind = fabric_.place(LinkId{use.link}).kind;
    if (kind == LinkKind::nic_out || kind == LinkKind::nic_in) most = std::max(most, use.weight);
  }
  return most / queue_pairs_;
}

// Against what its flows would have had alone: those in step may share cards among themselves. Ends
// are rounded up to whole nanoseconds.
void FlowModel::count_pace(const Transfer& transfer, LinkId held) {
  if (transfer.latency.value == 0) return;
  const double alone_ns = transfer.size * queue_pairs_ * transfer.turns / card_rate() * 1e9;
  const auto took_ns = static_cast<double>((now_ - transfer.started).value);
  if (took_ns <= std::ceil(alone_ns) || alone_ns / took_ns >= slowest_) return;
  slowest_ = alone_ns / took_ns;
  slowest_link_ = held;
}

bool FlowModel::set_dead(LinkId link, bool dead) {
  if (dead && dead_.empty()) dead_.resize(carried_.size());
  if (dead_.empty()) return false;
  const bool was = dead_[static_cast<std::size_t>(link)];
  dead_[static_cast<std::size_t>(link)] = dead;
  return dead && !was;
}

bool FlowModel::works(const Path& path) const {
  return dead_.empty() || std::ranges::none_of(path.span(), [this](LinkId link) {
           return dead_[static_cast<std::size_t>(link)];
         });
}

// The part of all packets that gets to the end of the path.
double FlowModel::arrives(const Path& path) const {
  double part = 1;
  if (!loss_.empty())
    for (const LinkId link : path.span()) part *= 1 - loss_[static_cast<std::size_t>(link)];
  return part;
}

// What the transfer takes of each link on the paths that its queue pairs have now. False: one of
// them has no path that works.
bool FlowModel::find_paths(Transfer& transfer) {
  uses_.clear();
  double all_arrive = 1;
  for (const Flow& flow : transfer.flows) {
    check(flow.bytes == transfer.flows.front().bytes, "flows in step have equal sizes");
    QueuePair pair{static_cast<std::int32_t>(placement_.slot(flow.source)),
                   static_cast<std::int32_t>(placement_.slot(flow.target)), flow.hash};
    for (; pair.number < queue_pairs_; ++pair.number) {
      const auto path = router_.find(pair);
      if (!path || !works(*path)) return false;
      transfer.latency = std::max(transfer.latency, fabric_.latency(path->switches));
      const double arrive = arrives(*path);
      all_arrive *= arrive;
      const double weight = arrive == 1
                                ? 1
                                : 1 / transport_.goodput(1 - arrive, card_rate(),
                                                         fabric_.latency(path->switches) * 2);
      for (const LinkId link : path->span())
        uses_.push_back({static_cast<std::int32_t>(link), weight});
    }
  }
  transfer.loss = 1 - all_arrive;
  return true;
}

std::vector<std::int32_t> FlowModel::crossing(LinkId link) const {
  std::vector<std::int32_t> out;
  rates_.each_use_of(static_cast<std::int32_t>(link),
                     [&](std::int32_t flow, double) { out.push_back(slot_of_flow_[flow]); });
  return out;
}

void FlowModel::set_loss(LinkId link, double part, Time now) {
  go_to(now);
  settle();
  if (loss_.empty()) loss_.resize(carried_.size());
  loss_[static_cast<std::size_t>(link)] = part;
  for (const std::int32_t slot : crossing(link)) {
    take_off(slot);
    send(slot);
  }
}

void FlowModel::lose_all_over(LinkId link) {
  settle();
  for (const std::int32_t slot : crossing(link)) {
    const double rate = rate_of(transfers_[slot]) * queue_pairs_;
    take_off(slot);
    lose(slot);
    if (rate > 0) transfers_[slot].window = transport_.window(rate);
  }
}

// From now on nothing of the transfer arrives.
void FlowModel::lose(std::int32_t slot) {
  Transfer& transfer = transfers_[slot];
  transfer.lost = now_;
  transfer.window = transport_.window(card_rate());
  transfer.obstacle = obstacle(transfer);
  lost_.push_back(slot);
  due_.set(slot, now_ + transport_.gives_up(), transfer.order);
}

void FlowModel::look_for_paths() {
  const std::vector<std::int32_t> slots = lost_;  // those that go on leave it
  for (const std::int32_t slot : slots) look_for_path(slot);
}

// Sets when the sender will find that its paths work again, or that it has to give up.
void FlowModel::look_for_path(std::int32_t slot) {
  Transfer& transfer = transfers_[slot];
  const Time since = now_ - transfer.lost;
  Time next = transport_.gives_up();
  if (!find_paths(transfer)) {
    transfer.obstacle = obstacle(transfer);
  } else {
    const Time after = since <= transfer.window ? since : transport_.retry_after(since);
    if (after == since) return retry(slot);
    if (after < kNever) next = after;
  }
  due_.set(slot, transfer.lost + next, transfer.order);
}

void FlowModel::retry(std::int32_t slot) {
  Transfer& transfer = transfers_[slot];
  if (now_ - transfer.lost >= transport_.gives_up()) return give_up(transfer);
  count_stall(now_ - transfer.lost);
  transfer.lost = kNever;
  transfer.obstacle.clear();
  transfer.since = now_;
  std::erase(lost_, slot);
  due_.erase(slot);
  send(slot);
  check(transfers_[slot].lost == kNever, "a path that works does not");
}

void FlowModel::count_stall(Time wait) {
  if (wait.value == 0) return;
  ++stalls_;
  longest_stall_ = std::max(longest_stall_, wait);
}

void FlowModel::give_up(const Transfer& transfer) {
  const std::string why =
      transfer.lost < kNever
          ? transfer.obstacle
          : fmt::format("the last packet from rank {} to rank {} was lost again and again",
                        index(transfer.flows.front().source), index(transfer.flows.front().target));
  failure_ = transport_.error(now_, why);
}

// The first flow of the transfer that cannot move, and why.
std::string FlowModel::obstacle(const Transfer& transfer) const {
  const std::int32_t gpus = fabric_.node().gpus;
  for (const Flow& flow : transfer.flows) {
    QueuePair pair{static_cast<std::int32_t>(placement_.slot(flow.source)),
                   static_cast<std::int32_t>(placement_.slot(flow.target)), flow.hash};
    for (; pair.number < queue_pairs_; ++pair.number) {
      const auto path = router_.find(pair);
      if (path && works(*path)) continue;
      const std::string ends =
          fmt::format("from GPU {} of node {} to GPU {} of node {} (ranks {} and {})",
                      pair.source % gpus, pair.source / gpus, pair.target % gpus,
                      pair.target / gpus, index(flow.source), index(flow.target));
      if (!path) return "no path is left " + ends;
      const auto links = path->span();
      const auto dead = std::ranges::find_if(
          links, [this](LinkId link) { return dead_[static_cast<std::size_t>(link)]; });
      return fmt::format("nothing arrives {}: {} is down", ends, fabric_.name(*dead));
    }
  }
  check(false, "every path of a flow works that lost its own");
  return "";
}

}  // namespace trainyard
