#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "backends/common/file_writer.h"
#include "backends/common/store.h"
#include "core/error.h"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

// A file a key; it appears whole under its name or not at all.
class FileStore final : public Store {
 public:
  FileStore(fs::path folder, std::string_view run_id) : folder_(std::move(folder)) {
    folder_ /= encoded(run_id);
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error)
      throw ConfigError(
          fmt::format("store \"file:{}\" cannot be used: {}", folder_.string(), error.message()));
  }

  void set(std::string_view key, std::string_view value) override {
    FileWriter file(folder_ / encoded(key));
    file.write(value);
    file.close();
  }

  std::optional<std::string> get(std::string_view key) override {
    std::ifstream file(folder_ / encoded(key), std::ios::binary);
    if (!file) return std::nullopt;
    std::ostringstream value;
    value << file.rdbuf();
    return std::move(value).str();
  }

 private:
  // Keys have any bytes; file names have no slash and none is hidden.
  static std::string encoded(std::string_view key) {
    std::string name = "k";
    for (const char c : key) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.')
        name += c;
      else
        name += fmt::format("_{:02x}", static_cast<unsigned char>(c));
    }
    return name;
  }

  fs::path folder_;
};

}  // namespace

std::vector<std::string> wait_for(Store& store, std::span<const std::string> keys,
                                  std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kFirstPause{1}, kLongestPause{50};
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::vector<std::string> values;
  auto pause = kFirstPause;
  while (true) {
    while (values.size() < keys.size()) {
      auto value = store.get(keys[values.size()]);
      if (!value) break;
      values.push_back(*std::move(value));
    }
    if (values.size() == keys.size()) return values;
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  std::string missing;
  for (const std::string& key : keys.subspan(values.size()))
    if (!store.get(key)) missing += (missing.empty() ? "" : ", ") + key;
  throw std::runtime_error(
      fmt::format("the store has no {} after {} ms", missing, timeout.count()));
}

std::unique_ptr<Store> open_store(std::string_view address, std::string_view run_id) {
  constexpr std::string_view kFile = "file:";
  if (address.starts_with(kFile))
    return std::make_unique<FileStore>(fs::path(address.substr(kFile.size())), run_id);
  throw ConfigError(
      fmt::format("store \"{}\" is of no known kind; valid: file:DIRECTORY", address));
}

}  // namespace trainyard
