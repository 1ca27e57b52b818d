#include "core/config/load.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "core/config/complete.h"
#include "core/config/report.h"
#include "core/config/rules.h"
#include "core/config/schema.h"

namespace trainyard {
namespace {

// Stores every setting in the job.
void assign(const Settings& settings, Job& job, Report& report) {
  for (const auto& [key, setting] : settings) {
    std::string name;
    const Row* row = find_row(key, &name);
    try {
      row->assign(*row, setting, name, job);
    } catch (const BadValue& bad) {
      report.refuse_at(bad.where, key, bad.text, bad.what());
    }
  }
}

// Makes the keys that a lost file may have set unusable.
void spoil_lost(const Merged& merged, Report& report) {
  for (const std::string& section : merged.lost)
    for (const std::string& key : keys_of(section))
      if (!report.given(key)) report.spoil(key);
}

// Refuses the absence of required keys, one message a section.
void require(const Where& job, Report& report) {
  std::map<std::string, std::string> missing;  // section -> names
  for (const Row& row : schema()) {
    if (!row.required || report.given(row.key) || !report.usable({row.key})) continue;
    const std::size_t dot = row.key.rfind('.');
    std::string& names = missing[row.key.substr(0, dot)];
    names += (names.empty() ? "" : ", ") + row.key.substr(dot + 1);
    report.spoil(row.key);
  }
  for (const auto& [section, names] : missing) {
    const bool preset = find_row(section + ".preset") != nullptr;
    report.refuse_absence(job, fmt::format("[{}]: missing {}{}", section, names,
                                           preset ? "; give them, or " + section + ".preset" : ""));
  }
}

enum class Part : std::uint8_t { all, cluster };

Job load(const std::vector<std::string>& files, const std::vector<std::string>& sets,
         const std::string& scenario_root, Part part) {
  std::vector<Problem> problems;
  const Merged merged = merge_settings(files, sets, scenario_root, problems);
  Job job;
  if (!files.empty()) job.name = std::filesystem::path(files.back()).stem().string();
  Report report(merged.settings, job, std::move(problems));
  assign(merged.settings, job, report);
  spoil_lost(merged, report);
  if (part == Part::all) {
    require({files.empty() ? "--set" : files.back(), 0, 0}, report);
    complete(job, report);
    check_rules(job, report);
  } else {
    complete_world(job, report);
    check_links(job, report);
  }
  report.finish();
  job.warnings = report.warnings();
  return job;
}

}  // namespace

Job load_job(const std::vector<std::string>& files, const std::vector<std::string>& sets,
             const std::string& scenario_root) {
  return load(files, sets, scenario_root, Part::all);
}

Job load_cluster(const std::vector<std::string>& files, const std::vector<std::string>& sets,
                 const std::string& scenario_root) {
  return load(files, sets, scenario_root, Part::cluster);
}

}  // namespace trainyard
