#include "tools/trainyard/trace_read.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <streambuf>
#include <utility>

#include "core/error.h"
#include "tools/trainyard/output.h"
#include "tools/trainyard/trace.h"

namespace trainyard {
namespace {

// The bytes of a file, unpacked where it is gzip.
class PackedFile : public std::streambuf {
 public:
  explicit PackedFile(const std::string& path) : file_(gzopen(path.c_str(), "rb")) {
    if (file_ == nullptr) throw ConfigError(path + ": cannot be read");
    gzbuffer(file_, 1 << 17);
  }
  ~PackedFile() override {
    if (file_ != nullptr) gzclose(file_);
  }
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  bool empty() const { return !any_; }
  // Whether all of the file was there, and as it was packed.
  bool sound() {
    const int closed = gzclose(std::exchange(file_, nullptr));
    return !failed_ && closed == Z_OK;
  }

 private:
  int_type underflow() override {
    const int got = gzread(file_, buffer_.data(), static_cast<unsigned>(buffer_.size()));
    if (got < 0) failed_ = true;
    if (got <= 0) return traits_type::eof();
    any_ = true;
    setg(buffer_.data(), buffer_.data(), buffer_.data() + got);
    return traits_type::to_int_type(buffer_[0]);
  }

  gzFile file_;
  std::array<char, 1 << 16> buffer_{};
  bool any_ = false, failed_ = false;
};

// Gives equal values equal numbers.
template <class Value>
class Numbering {
 public:
  std::uint32_t number(const Value& value, std::vector<Value>& values) {
    const auto [at, is_new] = numbers_.emplace(value, static_cast<std::uint32_t>(values.size()));
    if (is_new) values.push_back(value);
    return at->second;
  }

 private:
  std::map<Value, std::uint32_t> numbers_;
};

// What is read of one entry of "traceEvents".
struct Entry {
  std::string phase;
  std::optional<double> pid, tid, ts, dur, instruction;  // ts and dur in microseconds
  TracedWork work;
  TracedPass pass;
  double micro_batch = 0, chunk = 0;
};

// Takes in the parser's events; what is no part of an instruction's slice is passed over.
class TraceParser : public nlohmann::json_sax<Json> {
 public:
  explicit TraceParser(const std::string& path) : path_(path) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool binary(binary_t&) override { return true; }
  bool string(string_t& value) override {
    if (depth_ < kEntry) {
      if (key_ == "schema") schema_ = value;
      if (key_ == "program_hash") step_.program_hash = value;
    } else if (depth_ == kEntry && in_entries_) {
      if (key_ == "ph") entry_.phase = value;
      if (key_ == "name") entry_.work.name = value;
    } else if (depth_ == kArguments && in_arguments_) {
      if (key_ == "group") entry_.work.group = value;
      if (key_ == "pass") entry_.pass.kind = value;
    }
    return true;
  }
  bool key(string_t& value) override {
    key_ = value;
    return true;
  }
  bool start_object(std::size_t) override {
    ++depth_;
    if (depth_ == kEntry && in_entries_) entry_ = {};
    if (depth_ == kArguments) in_arguments_ = in_entries_ && key_ == "args";
    return true;
  }
  bool end_object() override {
    if (depth_ == kEntry && in_entries_) add_entry();
    if (depth_ == kArguments) in_arguments_ = false;
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (++depth_ == kEntries) in_entries_ = key_ == "traceEvents";
    return true;
  }
  bool end_array() override {
    if (depth_-- == kEntries) in_entries_ = false;
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const Json::exception&) override {
    bad_byte_ = at;
    return false;
  }

  std::size_t bad_byte() const { return bad_byte_; }

  // Once all is parsed.
  TracedStep finish() && {
    if (schema_ != kTraceSchema || step_.program_hash.empty())
      throw ConfigError(fmt::format(
          "{}: is no trace of `trainyard`: its schema is \"{}\", not \"{}\" with a program_hash",
          path_, schema_, kTraceSchema));
    if (step_.instrs.empty()) throw ConfigError(path_ + ": the trace holds no instruction");
    const auto place = [](const TracedInstr& i) { return std::pair(i.rank, i.instr); };
    std::ranges::sort(step_.instrs, {}, place);
    const auto twice = std::ranges::adjacent_find(step_.instrs, {}, place);
    if (twice != step_.instrs.end())
      throw ConfigError(fmt::format(
          "{}: holds instruction {} of rank {} twice; a trace to compare is of one step", path_,
          twice->instr, twice->rank));
    return std::move(step_);
  }

 private:
  // Depths: of the file's object, its list of entries, an entry, the arguments of one.
  static constexpr int kEntries = 2, kEntry = 3, kArguments = 4;

  bool number(double value) {
    if (!in_entries_) return true;
    if (depth_ == kEntry) {
      if (key_ == "pid") entry_.pid = value;
      if (key_ == "tid") entry_.tid = value;
      if (key_ == "ts") entry_.ts = value;
      if (key_ == "dur") entry_.dur = value;
    } else if (depth_ == kArguments && in_arguments_) {
      if (key_ == "instruction") entry_.instruction = value;
      if (key_ == "micro_batch") entry_.micro_batch = value;
      if (key_ == "chunk") entry_.chunk = value;
    }
    return true;
  }

  // A whole number from 0 to `most`.
  std::int32_t whole(const char* what, std::optional<double> value, double most) const {
    if (!value || !(*value >= 0 && *value <= most) || *value != std::floor(*value))
      throw ConfigError(
          fmt::format("{}: instruction {} of the file: {} is no whole number from 0 to {}", path_,
                      step_.instrs.size() + 1, what, most));
    return static_cast<std::int32_t>(*value);
  }

  Time stamp(const char* what, std::optional<double> microseconds_) const {
    constexpr double kMost = 1e15;  // some 30 years
    if (!microseconds_ || !(std::abs(*microseconds_) <= kMost))
      throw ConfigError(fmt::format("{}: instruction {} of the file: {} is no time in microseconds",
                                    path_, step_.instrs.size() + 1, what));
    return microseconds(*microseconds_);
  }

  void add_entry() {
    if (entry_.phase != "X" || !entry_.instruction) return;
    TracedInstr instr;
    instr.rank = whole("pid", entry_.pid, INT32_MAX);
    instr.instr =
        static_cast<std::uint32_t>(whole("args.instruction", entry_.instruction, INT32_MAX));
    entry_.work.stream = static_cast<Stream>(whole("tid", entry_.tid, kStreams - 1));
    entry_.pass.micro_batch = whole("args.micro_batch", entry_.micro_batch, INT32_MAX);
    entry_.pass.chunk = whole("args.chunk", entry_.chunk, INT32_MAX);
    instr.start = stamp("ts", entry_.ts);
    const Time duration = stamp("dur", entry_.dur);
    if (duration < Time{})
      throw ConfigError(fmt::format("{}: instruction {} of rank {} ends before it starts", path_,
                                    instr.instr, instr.rank));
    instr.end = instr.start + duration;
    instr.work = works_.number(entry_.work, step_.works);
    instr.pass = passes_.number(entry_.pass, step_.passes);
    step_.instrs.push_back(instr);
  }

  const std::string& path_;
  int depth_ = 0;
  bool in_entries_ = false, in_arguments_ = false;
  std::string key_, schema_;
  std::size_t bad_byte_ = 0;
  Entry entry_;
  Numbering<TracedWork> works_;
  Numbering<TracedPass> passes_;
  TracedStep step_;
};

}  // namespace

TracedStep read_trace(const std::string& path) {
  PackedFile file(path);
  std::istream stream(&file);
  TraceParser parser(path);
  const bool parsed = Json::sax_parse(stream, &parser);
  if (!file.sound()) throw ConfigError(path + ": cannot be read to its end: cut off or damaged");
  if (file.empty()) throw ConfigError(path + ": is empty");
  if (!parsed)
    throw ConfigError(fmt::format("{}: is no JSON or is cut off: stops making sense at byte {}",
                                  path, parser.bad_byte()));
  return std::move(parser).finish();
}

}  // namespace trainyard
