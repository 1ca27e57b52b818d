#include "core/config/schema.h"

#include <algorithm>
#include <set>

#include "core/config/schema_rows.h"

namespace trainyard {
namespace {

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (auto section : {job_rows, model_rows, parallel_rows, training_rows, real_run_rows,
                       cluster_rows, gpu_rows, measured_profile_rows, run_rows})
    for (Row& each : section()) rows.push_back(std::move(each));
  return rows;
}

// Matches "cluster.gpu.attention.flash2.q" with "cluster.gpu.attention.*.q".
bool matches(std::string_view pattern, std::string_view key, std::string* name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == key;
  const std::string_view tail = pattern.substr(star + 1);
  if (!key.starts_with(pattern.substr(0, star)) || !key.ends_with(tail)) return false;
  if (key.size() <= star + tail.size()) return false;
  const std::string_view middle = key.substr(star, key.size() - star - tail.size());
  if (middle.find('.') != std::string_view::npos) return false;
  if (name) *name = middle;
  return true;
}

}  // namespace

double unit_of_suffix(std::string_view key) {
  if (key.ends_with("_gbps")) return 1e9 / 8;  // gigabits a second, in bytes a second
  if (key.ends_with("_gbs")) return 1e9;
  if (key.ends_with("_tflops")) return 1e12;
  return 1;
}

Row row_of_preset(std::string key, std::string doc) {
  Row out;
  out.key = std::move(key);
  out.doc = std::move(doc);
  out.type = "string";
  out.derived = true;
  out.assign = [](const Row&, const Value& value, const std::string&, Job&) { as_string(value); };
  out.show = [](const Row&, const Job&) { return std::string(); };
  return out;
}

std::span<const Row> schema() {
  static const std::vector<Row> rows = all_rows();
  return rows;
}

const Row* find_row(std::string_view key, std::string* name) {
  static const auto exact = [] {
    std::map<std::string_view, const Row*> out;
    for (const Row& row : schema()) out.emplace(row.key, &row);
    return out;
  }();
  if (auto found = exact.find(key); found != exact.end()) return found->second;
  for (const Row& row : schema())
    if (row.key.find('*') != std::string::npos && matches(row.key, key, name)) return &row;
  return nullptr;
}

bool is_section(std::string_view prefix) {
  const std::string head = std::string(prefix) + ".";
  for (const Row& row : schema()) {
    if (row.key.starts_with(head)) return true;
    const std::size_t star = row.key.find('*');  // a section named by the file
    if (star == std::string::npos || !head.starts_with(row.key.substr(0, star))) continue;
    if (prefix.find('.', star) == std::string_view::npos && prefix.size() > star) return true;
  }
  return false;
}

std::vector<std::string> keys_of(std::string_view section) {
  const std::string head = section.empty() ? "" : std::string(section) + ".";
  std::vector<std::string> out;
  for (const Row& row : schema()) {
    std::string key = row.key;
    // Below a section that the file named, "*" is that name.
    if (const std::size_t star = key.find('*');
        star < head.size() && head.starts_with(key.substr(0, star)))
      key.replace(star, 1, head.substr(star, head.find('.', star) - star));
    if (key.starts_with(head)) out.push_back(std::move(key));
  }
  return out;
}

}  // namespace trainyard
