#include "core/config/flatten.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/config/nearest.h"
#include "core/config/schema.h"

namespace trainyard {
namespace {

std::string last_name(const std::string& key) { return key.substr(key.rfind('.') + 1); }

std::string parent(const std::string& key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

// Names directly below a section, sections with brackets: "layers, hidden, [gpu]".
std::string children(const std::string& section) {
  std::vector<std::string> names;
  const std::size_t begin = section.empty() ? 0 : section.size() + 1;
  for (const std::string& key : keys_of(section)) {
    const std::size_t dot = key.find('.', begin);
    std::string name = key.substr(begin, dot - begin);
    if (dot != std::string::npos) name = fmt::format("[{}]", name);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

bool plain_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-';
  });
}

std::string unknown_section(const std::string& key) {
  std::vector<std::string> sections;
  for (const Row& row : schema())
    if (const std::string section = parent(row.key);
        !section.empty() && std::find(sections.begin(), sections.end(), section) == sections.end())
      sections.push_back(section);
  return fmt::format("unknown section{}; sections: {}", did_you_mean(key, sections),
                     fmt::join(sections, ", "));
}

}  // namespace

std::string unknown_key(const std::string& key, bool list) {
  std::string section = parent(key);
  while (!section.empty() && !is_section(section)) section = parent(section);
  std::string meant;
  for (const Row& row : schema())  // the right name in the wrong section
    if (meant.empty() && last_name(row.key) == last_name(key) &&
        row.key.find('*') == std::string::npos)
      meant = row.key;
  if (meant.empty()) {
    std::vector<std::string> names;
    for (const std::string& known : keys_of(section))
      if (parent(known) == section) names.push_back(last_name(known));
    meant = nearest(last_name(key), names);
    if (!meant.empty() && !section.empty()) meant = section + "." + meant;
  }
  std::string out = "unknown key";
  if (!meant.empty()) out += fmt::format("; did you mean {}?", meant);
  if (list)
    out += fmt::format("; keys of {}: {}", section.empty() ? "the top level" : "[" + section + "]",
                       children(section));
  return out;
}

void flatten(const Table& table, const std::string& prefix, Settings& out,
             std::vector<Problem>& problems) {
  bool listed = false;  // the keys of this section, by an earlier complaint
  for (const auto& [name, value] : table) {
    const std::string key = prefix.empty() ? name : prefix + "." + name;
    const Table* inner = value.as<Table>();
    if (!plain_name(name)) {
      problems.push_back({value.key, fmt::format("{}: no key is called so; names are letters, "
                                                 "digits and _",
                                                 printable(key))});
    } else if (find_row(key)) {
      out.insert_or_assign(key, value);
    } else if (is_section(key) && inner) {
      flatten(*inner, key, out, problems);
    } else if (is_section(key) && value.as<std::string>() && find_row(key + ".preset")) {
      out.insert_or_assign(key + ".preset", value);
    } else if (is_section(key)) {
      problems.push_back({value.where, fmt::format("{} = {}: is a section, not a key; it holds: {}",
                                                   key, value.text(), children(key))});
    } else if (inner) {
      problems.push_back(
          {value.key, fmt::format("[{}]: {}", printable(key), unknown_section(key))});
    } else {
      problems.push_back({value.key, fmt::format("{} = {}: {}", printable(key), value.text(),
                                                 unknown_key(key, !listed))});
      listed = true;
    }
  }
}

}  // namespace trainyard
