#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/common/run_observer.h"

namespace trainyard {

// Tells several observers. A training must not die because its log cannot be written: an observer
// that throws is told nothing more, and its message goes to `complain`, once.
class RunObservers : public RunObserver {
 public:
  explicit RunObservers(std::function<void(const std::string&)> complain)
      : complain_(std::move(complain)) {}
  void add(std::shared_ptr<RunObserver> observer) { observers_.push_back(std::move(observer)); }
  // What observers could not write, in the order in which it happened.
  const std::vector<std::string>& problems() const { return problems_; }

  void begin(const RunFacts& facts) override;
  void step(const StepRecord& record) override;
  void evaluation(const EvaluationRecord& record) override;
  void checkpoint(const CheckpointRecord& record) override;
  void trace(const TraceRecord& record) override;
  void end(const RunEnd& end) override;

 private:
  void tell(const std::function<void(RunObserver&)>& what);

  std::function<void(const std::string&)> complain_;
  std::vector<std::shared_ptr<RunObserver>> observers_;
  std::vector<std::string> problems_;
};

}  // namespace trainyard
