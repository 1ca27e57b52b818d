#pragma once
#include "backends/common/observers/report_file.h"
#include "backends/common/run_observer.h"

namespace trainyard {

// JSON lines: an object for each step, evaluation and checkpoint, with its kind under "event",
// there to be read as soon as it has happened. A resumed run goes on behind the lines of the steps
// it builds on; those of steps it repeats are removed first.
class MetricsFile : public RunObserver {
 public:
  // "-" is standard output. Throws ConfigError when the path cannot be written.
  explicit MetricsFile(std::string path);

  void begin(const RunFacts& facts) override;
  void step(const StepRecord& record) override;
  void evaluation(const EvaluationRecord& record) override;
  void checkpoint(const CheckpointRecord& record) override;

 private:
  template <class Record>
  void write(const char* event, const Record& record);

  std::string path_;
  ReportFile file_;
};

}  // namespace trainyard
