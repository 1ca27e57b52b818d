#pragma once
#include <vector>

#include "backends/common/calibration/kernel_times.h"
#include "backends/common/calibration/samples.h"
#include "backends/common/store.h"

namespace trainyard {

// The keys of a store that belong to one measurement.
class PartOfStore final : public Store {
 public:
  PartOfStore(Store& store, std::string name) : store_(store), name_(std::move(name)) {}
  void set(std::string_view key, std::string_view value) override {
    store_.set(name_ + std::string(key), value);
  }
  std::optional<std::string> get(std::string_view key) override {
    return store_.get(name_ + std::string(key));
  }

 private:
  Store& store_;
  std::string name_;
};

// A rank's place among those that measure together.
struct TrialRank {
  RankId rank{};
  std::int32_t ranks = 1;
  Store* store = nullptr;   // of these ranks and this measurement alone
  bool on_devices = false;  // of their own: larger calls, and only small kernels between them
};

// Times collectives among the ranks, and messages between neighbours, in several sizes; on devices
// none beyond the first that takes 5 ms. All ranks call it and get the same samples.
std::vector<CallSample> time_calls(const TrialRank& place, const MakeBackend& make);

}  // namespace trainyard
