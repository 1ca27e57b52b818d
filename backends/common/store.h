#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

// Where ranks leave values for each other before they are connected. Keys and values are bytes.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(std::string_view key, std::string_view value) = 0;
  virtual std::optional<std::string> get(std::string_view key) = 0;  // none: not there yet
};

// The values of the keys, once all are there. Throws std::runtime_error that lists every missing
// key when `timeout` has passed.
std::vector<std::string> wait_for(Store& store, std::span<const std::string> keys,
                                  std::chrono::milliseconds timeout);

// A store at "file:DIRECTORY" (created if need be). `run_id` keeps the keys of runs apart. Throws
// ConfigError with the address and the cause when it cannot be used.
std::unique_ptr<Store> open_store(std::string_view address, std::string_view run_id);

}  // namespace trainyard
