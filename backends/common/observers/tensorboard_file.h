#pragma once
#include <utility>
#include <vector>

#include "backends/common/observers/report_file.h"
#include "backends/common/run_observer.h"

namespace trainyard {

// An event file that TensorBoard opens: scalars loss, learning_rate, grad_norm, tokens_per_s of
// every step and validation_loss of every evaluation. Written by hand: the records' frame is
// TensorFlow's tfrecord (tensorflow/core/lib/io/record_writer.h), their content the messages Event,
// Summary and SessionLog of tensorflow/core/util/event.proto and framework/summary.proto.
class TensorboardFile : public RunObserver {
 public:
  // Makes a new file in `directory`, made too if missing. Throws ConfigError when that cannot be.
  explicit TensorboardFile(const std::string& directory);

  // A resumed run tells TensorBoard to forget the steps that it will repeat.
  void begin(const RunFacts& facts) override;
  void step(const StepRecord& record) override;
  void evaluation(const EvaluationRecord& record) override;

  const std::string& path() const { return file_.path(); }

 private:
  void write_event(std::int64_t step, std::string_view content);
  void write_scalars(std::int64_t step, const std::vector<std::pair<const char*, double>>& scalars);

  ReportFile file_;
};

// CRC-32C (Castagnoli) with reflected polynomial 0x82F63B78, as iSCSI has it (RFC 3720, B.4).
std::uint32_t crc32c(std::string_view bytes);

}  // namespace trainyard
