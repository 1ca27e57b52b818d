#include "tools/trainyard/trace.h"

#include <fmt/format.h>
#include <zlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <tuple>

#include "core/error.h"

namespace trainyard {
namespace {

std::int32_t parse_rank(std::string_view word, std::string_view text, const Job& job) {
  std::int32_t rank = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), rank);
  if (error != std::errc() || end != word.data() + word.size() || rank < 0 || rank >= job.gpus())
    throw ConfigError(fmt::format(
        "--trace-ranks {}: \"{}\" is no rank; ranks are 0 to {}, as in 0,5,8-15, pipeline, or all",
        text, word, job.gpus() - 1));
  return rank;
}

class TraceWriter {
 public:
  TraceWriter(const ProgramSet& programs, const Mesh& mesh, std::span<const TraceEvent> all,
              std::size_t limit)
      : programs_(programs), mesh_(mesh) {
    Time horizon = kNever;
    if (all.size() > limit) {
      std::vector<Time> starts;
      starts.reserve(all.size());
      for (const TraceEvent& event : all) starts.push_back(event.start);
      std::nth_element(starts.begin(), starts.begin() + static_cast<std::ptrdiff_t>(limit),
                       starts.end());
      horizon = starts[limit];
    }
    const auto told = [&](const TraceEvent& event) {  // joins do no work
      return event.start < horizon && program(event.rank).code[event.instr].op != Op::join;
    };
    std::ranges::copy_if(all, std::back_inserter(events_), told);
    if (horizon != kNever)
      out_.warning = fmt::format(
          "the trace holds {} of {} instructions: those from {:.6f} s on are left out; "
          "--trace-ranks and --trace-limit choose others",
          events_.size(), all.size(), to_seconds(horizon));
  }

  TraceText text() && {
    out_.content = fmt::format(
        R"({{"displayTimeUnit":"ns","otherData":{{"schema":"{}","program_hash":"{:016x}"}},)"
        R"("traceEvents":[)",
        kTraceSchema, programs_.hash);
    name_tracks();
    for (const TraceEvent& event : events_) slice(event);
    arrows();
    out_.content += "\n]}\n";
    return std::move(out_);
  }

 private:
  const Program& program(RankId rank) const {
    return *programs_.by_stage[mesh_.coord(rank)[Axis::pipeline]];
  }

  void line(std::string_view text) {
    out_.content += first_ ? "\n" : ",\n";
    out_.content += text;
    first_ = false;
  }

  void name_tracks() {
    std::vector<bool> seen(mesh_.size());
    for (const TraceEvent& event : events_) {
      const auto rank = index(event.rank);
      if (seen[rank]) continue;
      seen[rank] = true;
      name_track(rank, 0, "process_name",
                 fmt::format("rank {} (stage {})", rank, program(event.rank).stage));
      for (int stream = 0; stream < kStreams; ++stream)
        name_track(rank, stream, "thread_name", stream_name(static_cast<Stream>(stream)));
    }
  }

  void name_track(std::int64_t rank, int stream, std::string_view what, std::string_view name) {
    line(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":"{}"}}}})", rank,
                     stream, what, name));
  }

  // Microseconds with every nanosecond.
  static std::string stamp(Time time) {
    return fmt::format("{}.{:03}", time.value / 1000, time.value % 1000);
  }

  void slice(const TraceEvent& event) {
    const Program& code = program(event.rank);
    const Instr& instr = code.code[event.instr];
    std::string args = fmt::format(R"("instruction":{})", event.instr);
    std::string name(op_name(instr.op));
    if (instr.op == Op::kernel) {
      const KernelSpec& kernel = code.kernels[instr.what];
      name = kernel_info(kernel.kind).name;
      args +=
          fmt::format(R"(,"shape":[{}],"flops":{})", fmt::join(kernel.shape, ","), kernel.flops);
    } else if (instr.bytes.value > 0) {
      if (instr.op != Op::copy && instr.op != Op::host)
        args += fmt::format(R"(,"group":"{}")", group_name(instr.group));
      args += fmt::format(R"(,"bytes":{})", instr.bytes.value);
    }
    if (instr.pass != kNone) {
      const Pass& pass = code.passes[instr.pass];
      args += fmt::format(R"(,"pass":"{}","micro_batch":{},"chunk":{})", pass_name(pass.kind),
                          pass.micro_batch, pass.chunk);
    }
    line(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":"{}","args":{{{}}}}})",
                     index(event.rank), static_cast<int>(instr.stream), stamp(event.start),
                     stamp(event.end - event.start), name, args));
  }

  // Sends and receives between traced ranks pair up in order, by source, target and tag.
  void arrows() {
    using Key = std::tuple<std::int64_t, std::int64_t, std::uint32_t>;
    std::map<Key, std::vector<const TraceEvent*>> sends, receives;
    for (const TraceEvent& event : events_) {
      const Instr& instr = program(event.rank).code[event.instr];
      if (instr.op != Op::send && instr.op != Op::recv) continue;
      const std::int64_t here = index(event.rank);
      const std::int64_t peer = index(mesh_.neighbour(event.rank, Axis::pipeline, instr.peer));
      if (instr.op == Op::send)
        sends[{here, peer, instr.what}].push_back(&event);
      else
        receives[{peer, here, instr.what}].push_back(&event);
    }
    std::size_t id = 0;
    for (const auto& [key, from] : sends) {
      const auto to = receives.find(key);
      if (to == receives.end()) continue;
      for (std::size_t i = 0; i < std::min(from.size(), to->second.size()); ++i) {
        arrow_end('s', ++id, *from[i], from[i]->start);
        arrow_end('f', id, *to->second[i], to->second[i]->end);
      }
    }
  }

  void arrow_end(char phase, std::size_t id, const TraceEvent& event, Time at) {
    const Instr& instr = program(event.rank).code[event.instr];
    line(fmt::format(R"({{"ph":"{}","bp":"e","id":{},"pid":{},"tid":{},"ts":{},"cat":"transfer",)"
                     R"("name":"transfer"}})",
                     phase, id, index(event.rank), static_cast<int>(instr.stream), stamp(at)));
  }

  const ProgramSet& programs_;
  const Mesh& mesh_;
  std::vector<TraceEvent> events_;
  TraceText out_;
  bool first_ = true;
};

std::string gzip(std::string_view text) {
  z_stream stream{};
  constexpr int kGzipFormat = 15 + 16;
  check(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipFormat, 8,
                     Z_DEFAULT_STRATEGY) == Z_OK,
        "zlib does not start");
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int ended = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  check(ended == Z_STREAM_END, "zlib ended with {}", ended);
  return out;
}

}  // namespace

std::vector<RankId> parse_ranks(std::string_view text, const Job& job) {
  std::vector<RankId> out;
  if (text == "all") {
    for (std::int32_t rank = 0; rank < job.gpus(); ++rank) out.push_back(RankId{rank});
    return out;
  }
  if (text == "pipeline") {
    const Mesh mesh = job.mesh();
    for (std::int32_t stage = 0; stage < job.stages(); ++stage) {
      Coord coord;
      coord[Axis::pipeline] = stage;
      out.push_back(mesh.rank(coord));
    }
    return out;
  }
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    const std::size_t dash = word.find('-');
    const std::int32_t first = parse_rank(word.substr(0, dash), text, job);
    const std::int32_t last =
        dash == std::string_view::npos ? first : parse_rank(word.substr(dash + 1), text, job);
    if (last < first)
      throw ConfigError(fmt::format("--trace-ranks {}: \"{}\" runs backwards; ranks are 0 to {}",
                                    text, word, job.gpus() - 1));
    for (std::int32_t rank = first; rank <= last; ++rank) out.push_back(RankId{rank});
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void add_trace(CLI::App& command, TraceOptions& options) {
  command.add_option("--trace", options.file,
                     "File for a trace that Perfetto opens; gzip when the name ends in .gz");
  command
      .add_option("--trace-ranks", options.ranks,
                  "Ranks in the trace: 0,5,8-15, pipeline for the first of each stage, or all")
      ->capture_default_str();
  command.add_option("--trace-limit", options.limit, "Most instructions in the trace")
      ->check(CLI::Range(1, 10'000'000));
}

TraceText trace_text(const ProgramSet& programs, const Mesh& mesh,
                     std::span<const TraceEvent> events, const TraceOptions& options) {
  TraceText out = TraceWriter(programs, mesh, events, options.limit).text();
  if (options.file.ends_with(".gz")) out.content = gzip(out.content);
  return out;
}

}  // namespace trainyard
