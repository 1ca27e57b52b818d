#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "backends/common/run_observer.h"

namespace trainyard {

// Collects the document of `train --json`: every step of this run and what became of it.
class TrainJson : public RunObserver {
 public:
  void begin(const RunFacts& facts) override { facts_ = facts; }
  void step(const StepRecord& record) override { steps_.push_back(record); }
  void evaluation(const EvaluationRecord& record) override { evaluations_.push_back(record); }
  void checkpoint(const CheckpointRecord& record) override { checkpoints_.push_back(record); }
  void end(const RunEnd& end) override { end_ = end; }

  // Keys are only ever added. Null stands for what is not known: the MFU without a stated peak, a
  // validation loss without an evaluation, a norm that was not measured.
  nlohmann::ordered_json document() const;

 private:
  RunFacts facts_;
  std::vector<StepRecord> steps_;
  std::vector<EvaluationRecord> evaluations_;
  std::vector<CheckpointRecord> checkpoints_;
  RunEnd end_;
};

}  // namespace trainyard
