#include "core/config/schema_rows.h"

namespace trainyard {

std::vector<Row> job_rows() {
  Row base = row("base", TRAINYARD_AT(name),
                 "files merged below this one: a path or a list of paths, relative to this file");
  base.type = "string or list of strings";
  base.assign = [](const Row&, const Value&, const std::string&, Job&) {};  // the loader reads it
  base.show = [](const Row&, const Job&) { return std::string(); };
  return {
      std::move(base),
      row("name", TRAINYARD_AT(name), "what reports call the job; default: the last file's name")
          .computed(),
      row("seed", TRAINYARD_AT(seed), "start of every random draw"),
  };
}

}  // namespace trainyard
