#include "tools/trainyard/output.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace trainyard {
namespace fs = std::filesystem;

namespace {

// One name a file, however it is written.
fs::path one_name(const fs::path& path) {
  std::error_code error;
  const fs::path out = fs::weakly_canonical(path, error);
  return error ? path : out;
}

}  // namespace

PendingFile::PendingFile(fs::path path) : path_(std::move(path)) {
  std::error_code ignored;
  if (fs::is_directory(path_, ignored))
    throw ConfigError(fmt::format("{}: is a directory, not a file to write", path_.string()));
  const bool special = fs::exists(path_, ignored) && !fs::is_regular_file(path_, ignored);
  const fs::path beside = fmt::format("{}.{}.part", path_.string(), getpid());
  errno = 0;
  if (special ? access(path_.c_str(), W_OK) != 0 : !std::ofstream(beside, std::ios::binary))
    throw ConfigError(
        fmt::format("{}: cannot be written: {}", path_.string(), std::strerror(errno)));
  written_ = special ? path_ : beside;
  if (!special) fs::remove(beside, ignored);
}

PendingFile::PendingFile(PendingFile&& other) noexcept
    : path_(std::move(other.path_)), written_(std::move(other.written_)) {
  other.written_.clear();
}

PendingFile::~PendingFile() {
  std::error_code ignored;
  if (!written_.empty() && written_ != path_) fs::remove(written_, ignored);
}

void PendingFile::commit(std::string_view content) {
  errno = 0;
  std::ofstream file(written_, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file)
    throw std::runtime_error(
        fmt::format("{}: writing failed: {}", path_.string(), std::strerror(errno)));
  if (written_ != path_) fs::rename(written_, path_);
  written_.clear();
}

Output::Output(const Inputs& inputs, const std::string& name)
    : json_on_stdout_(inputs.json == "-") {
  for (const std::string& file : inputs.files) taken_.insert(one_name(file));
  if (!inputs.json.empty() && !json_on_stdout_) json_.push_back(take(inputs.json));
  if (inputs.out_dir.empty()) return;
  std::error_code error;
  fs::create_directories(inputs.out_dir, error);
  if (error)
    throw ConfigError(fmt::format("--out {}: cannot be made: {}", inputs.out_dir, error.message()));
  json_.push_back(take(fs::path(inputs.out_dir) / (name + ".json")));
  text_.push_back(take(fs::path(inputs.out_dir) / (name + ".txt")));
}

// A file that holds nothing else; what throws bytes away takes any number of results.
PendingFile Output::take(const fs::path& path) {
  std::error_code ignored;
  const bool special = fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
  if (!special && !taken_.insert(one_name(path)).second)
    throw ConfigError(fmt::format("{}: holds an input or another result already", path.string()));
  return PendingFile(path);
}

void Output::expect_extra(const std::string& path) {
  if (path == "-")
    throw ConfigError("-: only --json goes to standard output; give the name of a file");
  if (path.empty()) return;
  if (extra_.contains(path))
    throw ConfigError(fmt::format("{}: two results cannot go into one file", path));
  extra_.emplace(path, take(path));
}

void Output::write(const Json& json, const std::string& text) {
  const std::string dump = json.dump(2) + "\n";
  for (PendingFile& file : json_) file.commit(dump);
  for (PendingFile& file : text_) file.commit(text);
  print_all(json_on_stdout_ ? dump : text);
}

void Output::write_extra(const std::string& path, std::string_view content) {
  if (!path.empty()) extra_.at(path).commit(content);
}

void print_all(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw std::runtime_error(
        fmt::format("standard output cannot be written: {}", std::strerror(errno)));
}

}  // namespace trainyard
