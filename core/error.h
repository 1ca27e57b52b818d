#pragma once
#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace trainyard {

// Bad input. Carries every violation found, one per entry, each a complete sentence that starts
// with file:line:column where the value came from a file. The CLI prints them and exits with 2.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(std::vector<std::string> violations);
  explicit ConfigError(std::string violation) : ConfigError(std::vector{std::move(violation)}) {}
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  std::vector<std::string> violations_;
};

// A broken promise of our own code, never of the user's input.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Throws InternalError with the formatted message unless `condition` holds; on in release too.
template <class... Args>
void check(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]]
    throw InternalError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace trainyard
