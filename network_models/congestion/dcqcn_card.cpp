#include "network_models/congestion/dcqcn_card.h"

#include <algorithm>
#include <cmath>

namespace trainyard {
namespace {

// The least rate in the authors' simulator (github.com/bobzhuyb/ns3-rdma, MinRate).
constexpr double kLeastRate = 100e6 / 8;

double bytes_per_second(double mbps) { return mbps * 1e6 / 8; }

}  // namespace

DcqcnCard::DcqcnCard(const DcqcnParameters& parameters, Bandwidth line, Time start)
    : of_(&parameters), line_(line.value), rate_(line.value), target_(line.value), start_(start) {}

std::int64_t DcqcnCard::slot(Time now, double interval_us) const {
  return (now - start_).value / microseconds(interval_us).value;
}

double DcqcnCard::alpha(Time now) const {
  if (!marked_) return alpha_;
  const std::int64_t unmarked = slot(now, of_->alpha_interval_us) - alpha_slot_ - 1;
  return unmarked < 1 ? alpha_ : alpha_ * std::pow(1 - of_->gain, unmarked);
}

bool DcqcnCard::notify(Time now) {
  const double alpha_before = alpha(now);
  const std::int64_t alpha_slot = slot(now, of_->alpha_interval_us);
  if (!marked_ || alpha_slot > alpha_slot_) alpha_ = (1 - of_->gain) * alpha_before + of_->gain;
  marked_ = true;
  alpha_slot_ = alpha_slot;
  // Where notifications are as rare as cuts may be, each of them cuts.
  const std::int64_t cut_slot = slot(now, of_->cut_interval_us);
  if (of_->cut_interval_us > of_->notify_interval_us() && cut_slot <= cut_slot_) return false;
  cut_slot_ = cut_slot;
  if (rose_ || !of_->keeps_target) target_ = rate_;
  rate_ = std::max(std::min(kLeastRate, line_), rate_ * (1 - alpha_before / 2));
  rose_ = false;
  time_stage_ = byte_stage_ = 0;
  bytes_ = 0;
  next_rise_ = now + microseconds(of_->increase_interval_us);
  return true;
}

void DcqcnCard::rise() {
  next_rise_ += microseconds(of_->increase_interval_us);
  increase(std::max(time_stage_, byte_stage_));
  ++time_stage_;
}

bool DcqcnCard::sent(double bytes) {
  if (next_rise_ == kNever) return false;
  bytes_ += bytes;
  if (bytes_ < of_->increase_bytes) return false;
  bytes_ -= of_->increase_bytes;
  increase(std::max(time_stage_, byte_stage_));
  ++byte_stage_;
  return true;
}

void DcqcnCard::increase(int stage) {
  rose_ = true;
  if (stage > of_->recovery_steps && of_->hyper_mbps > 0)
    target_ += bytes_per_second(of_->hyper_mbps);
  else if (stage >= of_->recovery_steps)
    target_ += bytes_per_second(of_->additive_mbps);
  target_ = std::min(target_, line_);
  rate_ = (rate_ + target_) / 2;
  if (target_ < line_ || line_ - rate_ > 1e-3 * line_) return;
  rate_ = line_;
  next_rise_ = kNever;
}

}  // namespace trainyard
