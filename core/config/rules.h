#pragma once
#include "core/config/job.h"
#include "core/config/report.h"

namespace trainyard {

// Everything that must hold between the keys of a job before it can be planned. One function a
// group, each in its file; a rule is skipped while one of its keys is unusable.
void check_rules(const Job& job, Report& report);

void check_model(const Job& job, Report& report);
void check_parallel(const Job& job, Report& report);
void check_layers(const Job& job, Report& report);
void check_schedule(const Job& job, Report& report);
void check_cluster(const Job& job, Report& report);
void check_links(const Job& job, Report& report);  // part of check_cluster
void check_software(const Job& job, Report& report);
void check_run(const Job& job, Report& report);
void check_memory(const Job& job, Report& report);

// Legal values near a refused one, for messages.
std::string nearest_multiples(std::int64_t value, std::int64_t step);  // "32 or 48"
std::string nearest_divisors(std::int64_t value, std::int64_t of);     // "4 or 8"
std::string divisors_of_both(std::int64_t a, std::int64_t b);          // "1, 2, 4"

}  // namespace trainyard
