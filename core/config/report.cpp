#include "core/config/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/config/schema.h"
#include "core/error.h"

namespace trainyard {
namespace {

std::string with_place(const Problem& problem) {
  const std::string place = problem.where.text();
  return place.empty() ? problem.text : place + ": " + problem.text;
}

}  // namespace

bool Report::usable(std::initializer_list<std::string_view> keys) const {
  return std::none_of(keys.begin(), keys.end(),
                      [this](std::string_view key) { return unusable_.contains(key); });
}

Problem Report::problem(std::string_view key, const std::string& what) const {
  if (auto found = settings_.find(std::string(key)); found != settings_.end()) {
    const Value& value = found->second;
    return {value.where, fmt::format("{} = {}: {}", key, value.text(), what)};
  }
  const Row* row = find_row(key);
  if (!row || row->required) return {{}, fmt::format("{}: {}", key, what)};
  return {{}, fmt::format("{} = {} (not given): {}", key, row->show(*row, job_), what)};
}

void Report::refuse(std::string_view key, const std::string& what) {
  problems_.push_back(problem(key, what));
  unusable_.emplace(key);
}

void Report::refuse_at(const Where& where, const std::string& key, const std::string& value,
                       const std::string& what) {
  problems_.push_back({where, fmt::format("{} = {}: {}", key, value, what)});
  unusable_.insert(key);
}

void Report::conflict(std::string_view key, const std::string& what) {
  problems_.push_back(problem(key, what));
}

void Report::warn(std::string_view key, const std::string& what) {
  warnings_.push_back(with_place(problem(key, what)));
}

void Report::finish() const {
  if (problems_.empty()) return;
  std::vector<Problem> sorted = problems_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Problem& a, const Problem& b) { return a.where < b.where; });
  std::vector<std::string> violations;
  for (const Problem& each : sorted) {
    std::string text = with_place(each);
    if (std::find(violations.begin(), violations.end(), text) == violations.end())
      violations.push_back(std::move(text));
  }
  throw ConfigError(std::move(violations));
}

}  // namespace trainyard
