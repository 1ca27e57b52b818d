#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/job.h"
#include "core/mesh/mesh.h"
#include "core/program/program.h"
#include "core/program/trace_event.h"

namespace CLI {
class App;
}

namespace trainyard {

// Where a step's trace goes, and what of it.
struct TraceOptions {
  std::string file;  // empty: no trace; gzip when it ends in .gz
  std::string ranks;
  std::size_t limit = 500'000;  // instructions
};

void add_trace(CLI::App& command, TraceOptions& options);

// Ranks of "pipeline" (all stages of the first pipeline, tensor coordinate 0), "all", or a list
// such as "0,5,8-15"; throws ConfigError for anything else and for ranks the job does not have.
std::vector<RankId> parse_ranks(std::string_view text, const Job& job);

// Of the traces that `compare` reads: in "otherData", beside the hash of the programs.
inline constexpr std::string_view kTraceSchema = "trainyard-trace-1";

struct TraceText {
  std::string content;  // of the file
  std::string warning;  // what was left out; empty: nothing
};

// The events of a step in Chrome's trace format (Perfetto reads it): a process a rank, a thread a
// stream, an arrow from each send to its receive. Of more events than the options allow, the
// earliest ones.
TraceText trace_text(const ProgramSet& programs, const Mesh& mesh,
                     std::span<const TraceEvent> events, const TraceOptions& options);

}  // namespace trainyard
