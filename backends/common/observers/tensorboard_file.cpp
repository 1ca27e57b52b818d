#include "backends/common/observers/tensorboard_file.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "backends/common/observers/run_rate.h"
#include "core/error.h"

namespace trainyard {
namespace {
namespace fs = std::filesystem;

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78U : 0U);
    table[byte] = crc;
  }
  return table;
}
constexpr auto kCrcTable = crc_table();

// Lowest byte first, whatever this machine's order is.
template <class Word>
std::string little_endian(Word word) {
  std::string out;
  for (std::size_t i = 0; i < sizeof(Word); ++i) out += static_cast<char>(word >> (8 * i));
  return out;
}

// So that a record which itself holds records with their sums still has a sum of its own.
std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

std::string record(std::string_view content) {
  const std::string length = little_endian(static_cast<std::uint64_t>(content.size()));
  return length + little_endian(masked_crc(length)) + std::string(content) +
         little_endian(masked_crc(content));
}

// Fields of a protobuf message (protobuf.dev/programming-guides/encoding): a key of field number
// and wire type, then the value.
enum WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

std::string key(unsigned field, WireType type) { return varint(field << 3 | type); }

std::string field(unsigned number, std::int64_t value) {
  return key(number, kVarint) + varint(static_cast<std::uint64_t>(value));
}
std::string field(unsigned number, double value) {
  return key(number, kFixed64) + little_endian(std::bit_cast<std::uint64_t>(value));
}
std::string field(unsigned number, float value) {
  return key(number, kFixed32) + little_endian(std::bit_cast<std::uint32_t>(value));
}
std::string field(unsigned number, std::string_view bytes) {
  return key(number, kLengthDelimited) + varint(bytes.size()) + std::string(bytes);
}

// Field numbers, each named as in the .proto files.
namespace event_field {
constexpr unsigned wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7;
}
namespace summary_field {
constexpr unsigned value = 1;
}
namespace value_field {
constexpr unsigned tag = 1, simple_value = 2;
}
namespace session_log_field {
constexpr unsigned status = 1;
}
constexpr std::int64_t kSessionStart = 1;

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// TensorBoard looks for "tfevents" in the name and reads a folder's files in the order of their
// names, which is the order in which they were begun.
std::string new_event_path(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw ConfigError(fmt::format("{}: cannot be made: {}", directory, error.message()));
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {"localhost"};
  const std::string start =
      fmt::format("events.out.tfevents.{:010d}.{}.{}", static_cast<std::int64_t>(wall_seconds()),
                  host.data(), getpid());
  for (int number = 0;; ++number) {
    const fs::path path = fs::path(directory) / fmt::format("{}.{}", start, number);
    if (!fs::exists(path, error)) return path.string();
  }
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes)
    crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

TensorboardFile::TensorboardFile(const std::string& directory)
    : file_(new_event_path(directory), ReportFile::Start::anew) {}

void TensorboardFile::begin(const RunFacts& facts) {
  write_event(0, field(event_field::file_version, "brain.Event:2"));
  if (facts.steps_done > 0)
    write_event(facts.steps_done + 1,
                field(event_field::session_log, field(session_log_field::status, kSessionStart)));
}

void TensorboardFile::step(const StepRecord& record) {
  RunRate rate;
  rate.add(record);
  std::vector<std::pair<const char*, double>> scalars{{"loss", record.loss},
                                                      {"learning_rate", record.learning_rate},
                                                      {"tokens_per_s", rate.tokens_per_s()}};
  if (!std::isnan(record.grad_norm)) scalars.emplace_back("grad_norm", record.grad_norm);
  write_scalars(record.step, scalars);
}

void TensorboardFile::evaluation(const EvaluationRecord& record) {
  write_scalars(record.step, {{"validation_loss", record.loss}});
}

void TensorboardFile::write_scalars(std::int64_t step,
                                    const std::vector<std::pair<const char*, double>>& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars)
    summary += field(
        summary_field::value,
        field(value_field::tag, tag) + field(value_field::simple_value, static_cast<float>(value)));
  write_event(step, field(event_field::summary, summary));
}

void TensorboardFile::write_event(std::int64_t step, std::string_view content) {
  file_.write(record(field(event_field::wall_time, wall_seconds()) +
                     field(event_field::step, step) + std::string(content)));
}

}  // namespace trainyard
