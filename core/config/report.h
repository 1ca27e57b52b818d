#pragma once
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/job.h"
#include "core/config/settings.h"

namespace trainyard {

// Collects what is wrong with one job, and knows where each of its values came from.
class Report {
 public:
  Report(const Settings& settings, const Job& job, std::vector<Problem> problems)
      : settings_(settings), job_(job), problems_(std::move(problems)) {}

  bool given(std::string_view key) const { return settings_.contains(std::string(key)); }

  // Whether each key has a value of its own type and limits, so that a rule about them makes
  // sense; false after refuse() was called for one of them.
  bool usable(std::initializer_list<std::string_view> keys) const;

  void spoil(std::string_view key) { unusable_.emplace(key); }  // unusable without a word

  // Adds "place: key = value: what" and makes `key` unusable.
  void refuse(std::string_view key, const std::string& what);
  // The same for one item of a list or another place than the whole value.
  void refuse_at(const Where& where, const std::string& key, const std::string& value,
                 const std::string& what);
  // Adds a sentence about no key of the files.
  void refuse_absence(const Where& where, std::string what) {
    problems_.push_back({where, std::move(what)});
  }
  // Adds `what` about several keys at once, told at the place of `key`, which stays usable.
  void conflict(std::string_view key, const std::string& what);
  void warn(std::string_view key, const std::string& what);

  const std::vector<std::string>& warnings() const { return warnings_; }
  // Throws ConfigError with everything found, in the order of the files; nothing found: returns.
  void finish() const;

 private:
  Problem problem(std::string_view key, const std::string& what) const;

  const Settings& settings_;
  const Job& job_;
  std::vector<Problem> problems_;
  std::set<std::string, std::less<>> unusable_;
  std::vector<std::string> warnings_;
};

}  // namespace trainyard
