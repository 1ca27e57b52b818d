#include "backends/common/observers/metrics_file.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/common/file_writer.h"
#include "backends/common/observers/run_json.h"

namespace trainyard {
namespace {
using Json = nlohmann::ordered_json;

// Whether a line is whole and of a step that the run builds on.
bool is_kept(const std::string& line, std::int64_t steps_done) {
  const Json entry = Json::parse(line, nullptr, false);
  if (!entry.is_object()) return false;
  const auto step = entry.find("step");
  return step != entry.end() && step->is_number_integer() &&
         step->get<std::int64_t>() <= steps_done;
}

// Rewrites the file without the lines that a run from `steps_done` on would write again. The new
// file takes the old one's place whole, so being killed meanwhile loses nothing.
void remove_repeated(const std::string& path, std::int64_t steps_done) {
  std::ifstream old(path, std::ios::binary);
  FileWriter kept(path);
  for (std::string line; std::getline(old, line);)
    if (!old.eof() && is_kept(line, steps_done)) kept.write(line + "\n");
  kept.close();
}

}  // namespace

MetricsFile::MetricsFile(std::string path)
    : path_(path), file_(std::move(path), ReportFile::Start::append) {}

void MetricsFile::begin(const RunFacts& facts) {
  std::error_code ignored;
  if (path_ == "-" || !std::filesystem::is_regular_file(path_, ignored)) return;
  remove_repeated(path_, facts.steps_done);
  file_ = ReportFile(path_, ReportFile::Start::append);
}

template <class Record>
void MetricsFile::write(const char* event, const Record& record) {
  Json line{{"event", event}};
  line.update(to_json(record));
  file_.write(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void MetricsFile::step(const StepRecord& record) { write("step", record); }

void MetricsFile::evaluation(const EvaluationRecord& record) { write("evaluation", record); }

void MetricsFile::checkpoint(const CheckpointRecord& record) { write("checkpoint", record); }

}  // namespace trainyard
