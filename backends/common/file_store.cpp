#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "backends/common/store_kinds.h"
#include "core/error.h"

namespace trainyard {
namespace {

std::string reason() { return std::strerror(errno); }

// A value appears under its key's name by a rename, so that nobody reads half of it.
class FileStore final : public Store {
 public:
  explicit FileStore(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::error_code failed;
    std::filesystem::create_directories(folder_, failed);
    if (failed)
      throw ConfigError(
          fmt::format("store file:{}: cannot be made: {}", folder_.string(), failed.message()));
    try {
      ::unlink(write_part("").c_str());  // shows now whether set() can work
    } catch (const StoreError& error) {
      throw ConfigError(error.what());
    }
  }

  void set(std::string_view key, std::string_view value) override {
    const std::string part = write_part(value);
    if (::rename(part.c_str(), file_of(key).c_str()) == 0) return;
    const std::string why = reason();
    ::unlink(part.c_str());
    fail("cannot be written", why);
  }

  std::optional<std::string> get(std::string_view key) override {
    const int file = ::open(file_of(key).c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0 && errno == ENOENT) return std::nullopt;
    if (file < 0) fail("cannot be read", reason());
    std::string value;
    std::array<char, 4096> block;
    ssize_t count = 0;
    while ((count = ::read(file, block.data(), block.size())) > 0)
      value.append(block.data(), static_cast<std::size_t>(count));
    const std::string why = reason();
    ::close(file);
    if (count < 0) fail("cannot be read", why);
    return value;
  }

 private:
  std::string file_of(std::string_view key) const { return folder_ / ("key-" + escaped(key)); }

  // A new file of its own with the value in it.
  std::string write_part(std::string_view value) const {
    std::string part = folder_ / "part-XXXXXX";
    const int file = ::mkostemp(part.data(), O_CLOEXEC);
    if (file < 0) fail("cannot be written", reason());
    const ssize_t count = ::write(file, value.data(), value.size());
    std::string why = count < 0 ? reason() : "short write";
    if (::close(file) != 0)
      why = reason();
    else if (count == static_cast<ssize_t>(value.size()))
      return part;
    ::unlink(part.c_str());
    fail("cannot be written", why);
  }

  [[noreturn]] void fail(const char* what, const std::string& why) const {
    throw StoreError(fmt::format("store file:{}: {}: {}", folder_.string(), what, why));
  }

  std::filesystem::path folder_;
};

}  // namespace

std::unique_ptr<Store> open_file_store(std::string_view place, std::string_view run_id,
                                       std::chrono::milliseconds /*patience*/) {
  if (place.empty()) throw ConfigError("store \"file:\": names no folder; valid: file:/some/dir");
  return std::make_unique<FileStore>(std::filesystem::path(place) / escaped(run_id));
}

}  // namespace trainyard
