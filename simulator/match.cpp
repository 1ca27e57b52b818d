#include <map>
#include <tuple>

#include "core/error.h"
#include "simulator/compile.h"

namespace trainyard {
namespace {

// Sender's stage, receiver's stage, tag.
using Channel = std::tuple<std::int32_t, std::int32_t, std::uint32_t>;
struct Side {
  CompiledProgram* program;
  std::uint32_t transfer;
  TransferEnd& end() const { return program->transfers[transfer]; }
};

void point_to(const Side& from, const Side& to) {
  from.end().peer_step = to.program->step_of[to.end().instr];
  from.end().peer_stream = to.program->steps[from.end().peer_step].stream;
  from.end().peer_transfer = to.transfer;
  from.end().peer_bytes = to.end().bytes;
}

void match_transfers(std::vector<CompiledProgram>& programs) {
  std::map<Channel, std::array<std::vector<Side>, 2>> channels;  // senders, receivers
  for (CompiledProgram& program : programs)
    for (std::uint32_t t = 0; t < program.transfers.size(); ++t) {
      const TransferEnd& end = program.transfers[t];
      const std::uint32_t tag = program.source->code[end.instr].what;
      const Channel channel = end.sends ? Channel{program.stage, end.peer_stage, tag}
                                        : Channel{end.peer_stage, program.stage, tag};
      channels[channel][end.sends ? 0 : 1].push_back({&program, t});
    }
  for (auto& [channel, sides] : channels)
    for (std::size_t n = 0; n < sides[0].size() && n < sides[1].size(); ++n) {
      point_to(sides[0][n], sides[1][n]);
      point_to(sides[1][n], sides[0][n]);
      // The sender knows what else leaves with it.
      sides[1][n].end().message = sides[0][n].end().message;
    }
}

void check_collectives(const std::vector<CompiledProgram>& programs, Group group) {
  std::vector<std::uint32_t> rows;  // of the nth collective
  for (const CompiledProgram& program : programs) {
    std::size_t n = 0;
    for (const SharedOp& op : program.shared) {
      if (op.transfers != 0 || op.group != group) continue;
      if (n == rows.size()) rows.push_back(op.collective);
      check(rows[n] == op.collective,
            "stage {}: collective {} of group {} differs in kind or size from other stages'",
            program.stage, n, group_name(group));
      ++n;
    }
  }
}

}  // namespace

void match_peers(std::vector<CompiledProgram>& programs) {
  match_transfers(programs);
  for (const Group group : {Group::pipeline, Group::embedding, Group::model, Group::world})
    check_collectives(programs, group);
}

}  // namespace trainyard
