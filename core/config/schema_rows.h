#pragma once
// The words the section tables in core/config/schema are written with.
#include "core/config/schema_read.h"

namespace trainyard {

// A function that finds a member in a job: TRAINYARD_AT(model.hidden). An expression cannot name
// a nested member of a type, and the spelled-out lambda would hide the table in noise.
#define TRAINYARD_AT(member) \
  [](auto& job) -> auto& { return job.member; }

double unit_of_suffix(std::string_view key);  // "_gbps" -> 1.25e8, none -> 1

// A row for the member `find` returns; its type decides how values are read and shown.
template <class Find>
Row row(std::string key, Find find, std::string doc) {
  using Member = std::remove_cvref_t<decltype(find(std::declval<Job&>()))>;
  Row out;
  out.key = std::move(key);
  out.doc = std::move(doc);
  if constexpr (requires { typename Member::value_type; } && !std::is_same_v<Member, std::string>)
    out.type = std::string("list of ") + type_name<typename Member::value_type>() + "s";
  else
    out.type = type_name<Member>();
  out.scale = unit_of_suffix(out.key);
  if constexpr (std::is_enum_v<Member>)
    for (const auto& choice : choices<Member>())
      out.choices.push_back({std::string(choice.name), std::string(choice.doc)});
  out.assign = [find](const Row& self, const Value& value, const std::string&, Job& job) {
    read_member(self, value, find(job));
  };
  out.show = [find](const Row& self, const Job& job) { return show_member(self, find(job)); };
  return out;
}

// A string row that takes only the names listed.
template <class Find>
Row row_of_names(std::string key, Find find, std::vector<ChoiceText> names, std::string doc) {
  Row out = row(std::move(key), find, std::move(doc));
  out.type = "choice";
  out.choices = std::move(names);
  return out;
}

// A row that names a preset: the loader merges the file below everything else.
Row row_of_preset(std::string key, std::string doc);

// The sections, each in its file.
std::vector<Row> job_rows();
std::vector<Row> model_rows();
std::vector<Row> parallel_rows();
std::vector<Row> training_rows();
std::vector<Row> real_run_rows();
std::vector<Row> gpu_rows();
std::vector<Row> measured_profile_rows();
std::vector<Row> cluster_rows();
std::vector<Row> run_rows();

}  // namespace trainyard
