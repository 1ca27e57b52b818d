#include "core/config/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/config/flatten.h"
#include "core/config/nearest.h"
#include "core/config/schema.h"
#include "core/config/toml_reader.h"
#include "core/error.h"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepestBase = 8;

// A section that may name a preset and where its files lie.
struct PresetKind {
  std::string section, folder;
};
const PresetKind kPresets[] = {
    {"model", "models"}, {"cluster", "clusters"}, {"cluster.gpu", "gpus"}};  // outer first

class Merger {
 public:
  Merger(fs::path root, std::vector<Problem>& problems)
      : root_(std::move(root)), problems_(problems) {}

  void add_file(const fs::path& path) { overlay(merged_.settings, read(path, "", 0)); }
  void add_set(const std::string& text);
  void add_presets();
  Merged take() { return std::move(merged_); }

 private:
  // `section` is lost when the file cannot be read.
  Settings read(const fs::path& path, const std::string& section, int depth);
  Settings read_bases(const Value& base, const fs::path& folder, int depth);
  static void overlay(Settings& below, Settings above) {
    above.merge(below);  // keeps what `above` has
    below = std::move(above);
  }
  void add_preset(const PresetKind& kind);
  void add_profile();
  void add_below(const fs::path& file, const std::string& section);
  void add_problem(const Where& where, std::string text) {
    problems_.push_back({where, std::move(text)});
  }

  fs::path root_;
  std::vector<Problem>& problems_;
  Merged merged_;
};

Settings Merger::read(const fs::path& path, const std::string& section, int depth) {
  Settings own;
  try {
    flatten(read_toml(path), "", own, problems_);
  } catch (const ConfigError& error) {
    add_problem({}, error.what());  // says the place itself
    merged_.lost.push_back(section);
    return {};
  }
  auto base = own.extract("base");
  if (base.empty()) return own;
  Settings merged = read_bases(base.mapped(), path.parent_path(), depth);
  overlay(merged, std::move(own));
  return merged;
}

Settings Merger::read_bases(const Value& base, const fs::path& folder, int depth) {
  List names{base};
  if (auto* list = base.as<List>()) names = *list;
  Settings merged;
  for (const Value& name : names) {
    auto* text = name.as<std::string>();
    const bool good = text && !text->empty() && depth < kDeepestBase;
    if (!good) merged_.lost.push_back("");
    if (!text || text->empty())
      add_problem(name.where, fmt::format("base = {}: is {}, but this key takes the path of a file "
                                          "or a list of paths",
                                          name.text(), name.type()));
    else if (depth == kDeepestBase)
      add_problem(name.where, fmt::format("base = {}: files are based on each other more than {} "
                                          "deep; is there a circle?",
                                          name.text(), kDeepestBase));
    else
      overlay(merged, read((folder / *text).lexically_normal(), "", depth + 1));
  }
  return merged;
}

void Merger::add_set(const std::string& text) {
  const Where where{"--set", 0, 0};
  const std::size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  if (equals == std::string::npos || key.empty() || equals + 1 == text.size())
    return add_problem(where, fmt::format("{}: write --set key=value, such as "
                                          "parallel.tensor=8",
                                          printable(text)));
  const std::string right = text.substr(equals + 1);
  Value value = parse_toml_value(right, where).value_or(Value{right, where, where});
  const bool preset = is_section(key) && value.as<std::string>() && find_row(key + ".preset");
  if (key == "base" || !(preset || find_row(key)))
    return add_problem(where,
                       fmt::format("{} = {}: {}", printable(key), value.text(), unknown_key(key)));
  merged_.settings.insert_or_assign(preset ? key + ".preset" : key, std::move(value));
}

void Merger::add_preset(const PresetKind& kind) {
  const auto found = merged_.settings.find(kind.section + ".preset");
  if (found == merged_.settings.end()) return;
  const Value& value = found->second;
  auto* name = value.as<std::string>();
  if (!name) return merged_.lost.push_back(kind.section);  // the schema refuses its type
  const fs::path folder = root_ / kind.folder;
  const fs::path file = folder / (*name + ".toml");
  std::error_code error;
  if (name->find('/') != std::string::npos || !fs::is_regular_file(file, error)) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
    std::sort(names.begin(), names.end());
    merged_.lost.push_back(kind.section);
    return add_problem(
        value.where,
        fmt::format("{}.preset = {}: no such preset in {}; valid: {}{}", kind.section, value.text(),
                    folder.string(), fmt::join(names, ", "), did_you_mean(*name, names)));
  }
  add_below(file, kind.section);
}

// Lays the keys of a file below all others, which are all to be of `section`.
void Merger::add_below(const fs::path& file, const std::string& section) {
  for (auto& [key, setting] : read(file, section, 0)) {
    if (key.starts_with(section + "."))
      merged_.settings.emplace(key, setting);
    else
      add_problem(setting.key, fmt::format("{} = {}: a preset of [{}] sets only keys of that "
                                           "section",
                                           key, setting.text(), section));
  }
}

// A profile of the machine at hand, by its path: of a file that names it, from there on.
void Merger::add_profile() {
  const std::string key = "cluster.profile";
  const auto found = merged_.settings.find(key);
  if (found == merged_.settings.end()) return;
  const Value value = found->second;
  auto* name = value.as<std::string>();
  if (!name) return merged_.lost.push_back("cluster");  // the schema refuses its type
  merged_.settings.erase("cluster.preset");
  const bool in_file = value.where.line > 0;
  const fs::path folder = in_file ? fs::path(value.where.file).parent_path() : fs::path();
  add_below((folder / *name).lexically_normal(), "cluster");
}

void Merger::add_presets() {
  add_profile();
  for (const PresetKind& kind : kPresets) add_preset(kind);
}

}  // namespace

Merged merge_settings(const std::vector<std::string>& files, const std::vector<std::string>& sets,
                      const std::string& scenario_root, std::vector<Problem>& problems) {
  Merger merger(scenario_root, problems);
  for (const std::string& file : files) merger.add_file(file);
  for (const std::string& set : sets) merger.add_set(set);
  merger.add_presets();
  return merger.take();
}

std::vector<std::string> setting_problems(const std::string& set,
                                          const std::string& scenario_root) {
  std::vector<Problem> problems;
  const Merged merged = merge_settings({}, {set}, scenario_root, problems);
  std::vector<std::string> out;
  for (const Problem& problem : problems) out.push_back(problem.text);
  Job job;
  for (const auto& [key, value] : merged.settings) {
    std::string name;
    const Row* row = find_row(key, &name);
    try {
      row->assign(*row, value, name, job);
    } catch (const BadValue& bad) {
      out.push_back(fmt::format("{} = {}: {}", key, bad.text, bad.what()));
    }
  }
  return out;
}

}  // namespace trainyard
