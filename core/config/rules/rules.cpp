#include "core/config/rules.h"

#include <fmt/format.h>

#include <numeric>

namespace trainyard {
namespace {

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t i = 1; i * i <= n; ++i) {
    if (n % i != 0) continue;
    low.push_back(i);
    if (i != n / i) high.insert(high.begin(), n / i);
  }
  low.insert(low.end(), high.begin(), high.end());
  return low;
}

std::string either(std::int64_t below, std::int64_t above) {
  if (below <= 0) return fmt::format("{}", above);
  if (above <= 0) return fmt::format("{}", below);
  return fmt::format("{} or {}", below, above);
}

}  // namespace

std::string nearest_multiples(std::int64_t value, std::int64_t step) {
  const std::int64_t below = value / step * step;
  return either(below, below + step);
}

std::string nearest_divisors(std::int64_t value, std::int64_t of) {
  std::int64_t below = 0, above = 0;
  for (std::int64_t divisor : divisors(of)) {
    if (divisor < value) below = divisor;
    if (divisor > value && above == 0) above = divisor;
  }
  return either(below, above);
}

std::string divisors_of_both(std::int64_t a, std::int64_t b) {
  return fmt::format("{}", fmt::join(divisors(std::gcd(a, b)), ", "));
}

void check_rules(const Job& job, Report& report) {
  for (auto rules : {check_model, check_parallel, check_layers, check_schedule, check_cluster,
                     check_software, check_run, check_memory})
    rules(job, report);
}

}  // namespace trainyard
