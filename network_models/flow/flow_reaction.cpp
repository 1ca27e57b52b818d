#include <algorithm>

#include "network_models/flow/flow_model.h"

namespace trainyard {

void FlowModel::forget(std::int32_t flow) {
  if (dynamics_) dynamics_->remove(flow, now_);
  rates_.remove(flow);
  slot_of_flow_[flow] = -1;
}

// The links before `link` of the flow's path over it, in order.
void FlowModel::upstream(std::int32_t flow, std::int32_t link,
                         std::vector<std::int32_t>& out) const {
  for (const Flow& edge : transfers_[slot_of_flow_[flow]].flows)
    for (std::uint32_t number = 0; number < queue_pairs_; ++number) {
      const Path path = this->path(edge, number);
      const std::span<const LinkId> links = path.span();
      const auto at = std::ranges::find(links, LinkId{link});
      if (at == links.end()) continue;
      for (const LinkId before : std::span(links.begin(), at))
        out.push_back(static_cast<std::int32_t>(before));
      return;
    }
}

// Bytes of a queue pair that have not arrived now.
double FlowModel::left(std::int32_t flow) const {
  const Transfer& transfer = transfers_[slot_of_flow_[flow]];
  return std::max(0.0, transfer.left - transfer.rate * to_seconds(now_ - transfer.since));
}

Path FlowModel::path(const Flow& flow, std::uint32_t number) const {
  return router_.path({static_cast<std::int32_t>(placement_.slot(flow.source)),
                       static_cast<std::int32_t>(placement_.slot(flow.target)), flow.hash, number});
}

LinkId FlowModel::bottleneck_of(std::int32_t flow) const {
  std::int32_t link = rates_.bottleneck(flow);
  if (link < 0 && dynamics_) link = dynamics_->last_queue(flow);
  return LinkId{link < 0 ? rates_.narrowest(flow) : link};
}

Time FlowModel::next() const {
  const Time end = due_.empty() ? kNever : due_.due();
  return dynamics_ ? std::min(end, dynamics_->due()) : end;
}

// Lets congestion control act, unless a flow ends now. False: it has nothing to do.
bool FlowModel::react() {
  if (!dynamics_ || dynamics_->due() > now_ || (!due_.empty() && due_.due() <= now_)) return false;
  dynamics_->act(now_);
  settle();
  return true;
}

}  // namespace trainyard
