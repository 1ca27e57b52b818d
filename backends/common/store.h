#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard {

// A store that was there and no longer answers, with its address and the system's reason.
class StoreError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Those who were waited for in vain: the text lists all of them.
class StoreTimeout : public StoreError {
 public:
  StoreTimeout(const std::string& text, std::vector<std::string> missing)
      : StoreError(text), missing_(std::move(missing)) {}
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  std::vector<std::string> missing_;
};

// Where the processes of a run leave small values for each other before they can talk. Keys and
// values are any bytes. An object serves one thread.
class Store {
 public:
  virtual ~Store() = default;
  // Replaces an earlier value as a whole. Throws StoreError.
  virtual void set(std::string_view key, std::string_view value) = 0;
  // Nothing while the key is not set. Throws StoreError.
  virtual std::optional<std::string> get(std::string_view key) = 0;
};

// Opens "file:/some/dir" or "redis://host:port" (6379 if not told; an IPv6 address in brackets).
// Runs of different ids never see each other's keys. Throws ConfigError with the address and the
// cause: scheme unknown, folder not writable, server not reachable or silent for `patience`.
std::unique_ptr<Store> open_store(
    std::string_view address, std::string_view run_id,
    std::chrono::milliseconds patience = std::chrono::milliseconds(10'000));

// The values of all keys, in their order. Throws StoreTimeout with the missing keys, StoreError.
std::vector<std::string> wait_for(Store& store, std::span<const std::string> keys,
                                  std::chrono::milliseconds timeout);

}  // namespace trainyard
