#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>

#include "tools/trainyard/inputs.h"

namespace trainyard {

using Json = nlohmann::ordered_json;

// A file that appears whole or not at all: made beside its final place and renamed by commit().
// Until then nothing is there, so that a run that is interrupted leaves nothing. A path that exists
// and is no regular file (a pipe, /dev/null) is written directly.
class PendingFile {
 public:
  // Throws ConfigError when nothing can be written there.
  explicit PendingFile(std::filesystem::path path);
  ~PendingFile();
  PendingFile(PendingFile&& other) noexcept;
  PendingFile& operator=(PendingFile&&) = delete;

  // Throws std::runtime_error when the disk refuses (full, gone).
  void commit(std::string_view content);

 private:
  std::filesystem::path path_, written_;  // written_ empty: committed or moved from
};

// Where a command's results go. Every file is opened before the work starts, so that a path that
// cannot be written is found at once.
class Output {
 public:
  // `name` of the files in --out: NAME.json and NAME.txt. Throws ConfigError, also where a result
  // would go into a file of `inputs` or into that of another result.
  Output(const Inputs& inputs, const std::string& name);
  // `path` (empty: none) is written by write_extra() of the same path.
  void expect_extra(const std::string& path);

  bool json_on_stdout() const { return json_on_stdout_; }
  // Writes the JSON and the text to every place asked for; the text goes to standard output unless
  // the JSON does.
  void write(const Json& json, const std::string& text);
  void write_extra(const std::string& path, std::string_view content);

 private:
  PendingFile take(const std::filesystem::path& path);

  bool json_on_stdout_ = false;
  std::set<std::filesystem::path> taken_;
  std::vector<PendingFile> json_, text_;
  std::map<std::string, PendingFile> extra_;
};

// Writes to standard output; throws std::runtime_error when that fails (closed, full).
void print_all(std::string_view text);

}  // namespace trainyard
