#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tools/trainyard/run.h"

namespace trainyard {

// Ranks of "pipeline" (all stages of the first pipeline, tensor coordinate 0) or of a list such as
// "0,5,8-15"; throws ConfigError for anything else and for ranks the job does not have.
std::vector<RankId> parse_ranks(std::string_view text, const Job& job);

// Of the traces that `compare` reads: in "otherData", beside the hash of the programs.
inline constexpr std::string_view kTraceSchema = "trainyard-trace-1";

struct TraceText {
  std::string json;
  std::string warning;  // what was left out; empty: nothing
};

// The traced ranks of the report in Chrome's trace format (Perfetto reads it): a process a rank, a
// thread a stream, an arrow from each send to its receive. At most `limit` instructions, the
// earliest ones.
TraceText trace_text(const SimReport& report, std::size_t limit);

// gzip of `text`.
std::string gzip(std::string_view text);

}  // namespace trainyard
