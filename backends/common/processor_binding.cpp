#include "backends/common/processor_binding.h"

#include <sched.h>

#include "core/mesh/core_share.h"

namespace trainyard {
namespace {

void run_on(const Processors& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const std::int32_t p : processors) CPU_SET(p, &set);
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

Processors allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  Processors found;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (std::int32_t p = 0; p < CPU_SETSIZE; ++p)
      if (CPU_ISSET(p, &set)) found.push_back(p);
  return found;
}

Processors own_processors(const Processors& allowed, std::int32_t place, std::int32_t ranks,
                          std::int32_t threads) {
  if (allowed.empty()) return {};
  const CoreShare share =
      core_share(place, ranks, static_cast<std::int32_t>(allowed.size()), threads);
  const auto first = allowed.begin() + share.first;
  return {first, first + share.count};
}

ProcessorBinding::ProcessorBinding(const Processors& processors) {
  if (processors.empty()) return;
  before_ = allowed_processors();
  run_on(processors);
}

ProcessorBinding::~ProcessorBinding() {
  if (!before_.empty()) run_on(before_);
}

}  // namespace trainyard
