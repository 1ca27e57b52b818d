#include "backends/common/observers/run_observers.h"

#include <stdexcept>

#include "core/error.h"

namespace trainyard {

void RunObservers::tell(const std::function<void(RunObserver&)>& what) {
  std::vector<std::shared_ptr<RunObserver>> still_heard;
  for (const auto& observer : observers_) {
    try {
      what(*observer);
      still_heard.push_back(observer);
    } catch (const InternalError&) {
      throw;
    } catch (const std::exception& error) {
      problems_.push_back(error.what());
      complain_(problems_.back());
    }
  }
  observers_ = std::move(still_heard);
}

void RunObservers::begin(const RunFacts& facts) {
  tell([&](RunObserver& each) { each.begin(facts); });
}

void RunObservers::step(const StepRecord& record) {
  tell([&](RunObserver& each) { each.step(record); });
}

void RunObservers::evaluation(const EvaluationRecord& record) {
  tell([&](RunObserver& each) { each.evaluation(record); });
}

void RunObservers::checkpoint(const CheckpointRecord& record) {
  tell([&](RunObserver& each) { each.checkpoint(record); });
}

void RunObservers::trace(const TraceRecord& record) {
  tell([&](RunObserver& each) { each.trace(record); });
}

void RunObservers::end(const RunEnd& end) {
  tell([&](RunObserver& each) { each.end(end); });
}

}  // namespace trainyard
