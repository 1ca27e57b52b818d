#include <algorithm>
#include <utility>

#include "network_models/flow/flow_model.h"

namespace trainyard {

void FlowModel::leave_clock(std::int32_t slot) {
  Transfer& transfer = transfers_[slot];
  if (transfer.clock < 0) return;
  BundleClock& clock = clocks_.at(transfer.clock);
  transfer.left = std::max(0.0, transfer.end - clock.served(now_));
  transfer.rate = clock.rate();
  transfer.since = now_;
  clock.erase({transfer.end, transfer.order, slot});
  transfer.clock = -1;
  if (clock.due != slot) return;
  clock.due = -1;
  due_.erase(slot);
  set_first_end(clock);
}

void FlowModel::join_clock(std::int32_t slot, std::int32_t link) {
  Transfer& transfer = transfers_[slot];
  count_sent(transfer);
  due_.erase(slot);
  BundleClock& clock = clocks_[link];
  transfer.clock = link;
  transfer.end = clock.served(now_) + transfer.left;
  clock.add({transfer.end, transfer.order, slot});
  set_first_end(clock);
}

// Gives the first of a bundle that will have sent all its time.
void FlowModel::set_first_end(BundleClock& clock) {
  if (clock.empty()) return;
  const BundleClock::End& first = clock.first();
  if (clock.due >= 0 && clock.due != first.slot) due_.erase(clock.due);
  clock.due = first.slot;
  set_due(first.slot, std::max(0.0, first.served - clock.served(now_)), clock.rate());
}

double FlowModel::rate_of(const Transfer& transfer) const {
  return transfer.clock < 0 ? transfer.rate : clocks_.at(transfer.clock).rate();
}

// Follows what the solver has put into bundles and taken out of them.
void FlowModel::move_bundles() {
  for (const std::int32_t flow : rates_.moved()) {
    const std::int32_t slot = slot_of_flow_[flow];
    if (slot >= 0) leave_clock(slot);
  }
  for (const std::int32_t link : rates_.changed_bundles()) {
    ++solved_;
    BundleClock& clock = clocks_[link];
    clock.set_rate(rates_.bundle_rate(link), now_);
    set_first_end(clock);
  }
  for (const std::int32_t flow : rates_.moved()) {
    const std::int32_t slot = slot_of_flow_[flow];
    if (slot < 0 || transfers_[slot].clock >= 0) continue;
    const std::int32_t link = rates_.bundle(flow);
    if (link >= 0)
      join_clock(slot, link);
    else
      set_end(flow);
  }
}

}  // namespace trainyard
