#include "backends/common/store.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "backends/common/patience.h"
#include "backends/common/store_kinds.h"
#include "core/error.h"

namespace trainyard {
namespace {

struct Kind {
  std::string_view scheme;
  std::string_view example;
  std::unique_ptr<Store> (*open)(std::string_view place, std::string_view run_id,
                                 std::chrono::milliseconds patience);
};

constexpr std::array kKinds = {
    Kind{"file", "file:/some/dir", open_file_store},
    Kind{"redis", "redis://host:port", open_redis_store},
};

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

}  // namespace

std::unique_ptr<Store> open_store(std::string_view address, std::string_view run_id,
                                  std::chrono::milliseconds patience) {
  if (run_id.empty()) throw ConfigError("the run has no id: set TRAINYARD_RUN_ID");
  const std::string_view scheme = address.substr(0, address.find(':'));
  for (const Kind& kind : kKinds)
    if (scheme == kind.scheme && scheme.size() < address.size())
      return kind.open(address.substr(scheme.size() + 1), run_id, patience);
  std::array<std::string_view, kKinds.size()> examples;
  std::ranges::transform(kKinds, examples.begin(), &Kind::example);
  throw ConfigError(fmt::format("store \"{}\": is not an address of a store; valid: {}", address,
                                fmt::join(examples, ", ")));
}

std::vector<std::string> wait_for(Store& store, std::span<const std::string> keys,
                                  std::chrono::milliseconds timeout) {
  std::vector<std::optional<std::string>> values(keys.size());
  for (Patience patience(timeout);; patience.rest()) {
    const bool last = patience.ended();
    std::vector<std::string> missing;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!values[i]) values[i] = store.get(keys[i]);
      if (!values[i]) missing.push_back(keys[i]);
    }
    if (missing.empty()) break;
    if (last)
      throw StoreTimeout(
          fmt::format("not set within {:g} s: {}", in_seconds(timeout), fmt::join(missing, ", ")),
          missing);
  }
  std::vector<std::string> found;
  for (std::optional<std::string>& value : values) found.push_back(std::move(*value));
  return found;
}

std::string escaped(std::string_view text) {
  std::string name;
  for (const char c : text)
    name += is_plain(c) ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return name;
}

}  // namespace trainyard
