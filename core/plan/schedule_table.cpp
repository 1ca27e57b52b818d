#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "core/plan/validate.h"

namespace trainyard {
namespace {

// Passes of a stage in the order in which they first compute.
std::vector<std::uint32_t> pass_order(const Program& program) {
  std::vector<std::uint32_t> order;
  std::vector<bool> seen(program.passes.size());
  for (const Instr& instr : program.code) {
    if (instr.stream != Stream::compute || instr.pass >= seen.size() || seen[instr.pass]) continue;
    seen[instr.pass] = true;
    order.push_back(instr.pass);
  }
  return order;
}

// Gives every pass a slot: one a slot and stage, in the stage's order, after the passes it needs.
class Slots {
 public:
  explicit Slots(const ProgramSet& programs)
      : programs_(programs), rows_(programs.by_stage.size()) {
    std::vector<std::vector<std::uint32_t>> orders;
    for (const auto& program : programs.by_stage) orders.push_back(pass_order(*program));
    std::vector<std::size_t> next(orders.size());
    std::size_t left = 0;
    for (std::size_t stage = 0; stage < orders.size(); ++stage) {
      left += orders[stage].size();
      for (const std::uint32_t index : orders[stage]) all_.insert(key(stage, pass(stage, index)));
    }
    for (std::size_t slot = 0; left > 0; ++slot) {
      std::vector<std::size_t> placed;
      for (std::size_t stage = 0; stage < orders.size(); ++stage)
        if (next[stage] < orders[stage].size() && ready(stage, orders[stage][next[stage]]))
          placed.push_back(stage);
      if (placed.empty()) placed = stages_with_more(orders, next);  // an order that cannot run
      for (const std::size_t stage : placed) place(stage, orders[stage][next[stage]++], slot);
      left -= placed.size();
    }
  }
  const std::vector<std::vector<std::uint32_t>>& rows() const { return rows_; }

 private:
  using Key = std::tuple<PassKind, std::int32_t, std::int32_t>;  // kind, micro-batch, global chunk

  static std::vector<std::size_t> stages_with_more(
      const std::vector<std::vector<std::uint32_t>>& orders, const std::vector<std::size_t>& next) {
    std::vector<std::size_t> stages;
    for (std::size_t s = 0; s < orders.size(); ++s)
      if (next[s] < orders[s].size()) stages.push_back(s);
    return stages;
  }
  Key key(std::size_t stage, const Pass& pass) const {
    const auto stages = static_cast<std::int32_t>(rows_.size());
    return {pass.kind, pass.micro_batch, pass.chunk * stages + static_cast<std::int32_t>(stage)};
  }
  const Pass& pass(std::size_t stage, std::uint32_t index) const {
    return programs_.by_stage[stage]->passes[index];
  }
  // Model chunk c lies on stage c mod p, so the neighbouring chunk is on the neighbouring stage.
  bool ready(std::size_t stage, std::uint32_t index) const {
    const Key own = key(stage, pass(stage, index));
    const auto [kind, micro_batch, chunk] = own;
    switch (kind) {
      case PassKind::forward:
        return chunk == 0 || done(kind, micro_batch, chunk - 1);
      case PassKind::backward:
        return done(PassKind::forward, micro_batch, chunk) &&
               (!exists(kind, micro_batch, chunk + 1) || done(kind, micro_batch, chunk + 1));
      case PassKind::weight_grad:
        return done(PassKind::backward, micro_batch, chunk);
      default:
        return true;
    }
  }
  bool done(PassKind kind, std::int32_t micro_batch, std::int32_t chunk) const {
    return done_.contains({kind, micro_batch, chunk});
  }
  bool exists(PassKind kind, std::int32_t micro_batch, std::int32_t chunk) const {
    return all_.contains({kind, micro_batch, chunk});
  }
  void place(std::size_t stage, std::uint32_t index, std::size_t slot) {
    rows_[stage].resize(slot + 1, kNone);
    rows_[stage][slot] = index;
    done_.insert(key(stage, pass(stage, index)));
  }

  const ProgramSet& programs_;
  std::vector<std::vector<std::uint32_t>> rows_;  // by stage and slot: pass, or kNone
  std::set<Key> all_, done_;
};

std::string cell_text(const Pass& pass, bool chunks) {
  static constexpr std::array<std::string_view, 5> kLetters{"F", "B", "W", "setup", "opt"};
  const std::string_view letter = kLetters[static_cast<std::size_t>(pass.kind)];
  if (pass.kind == PassKind::setup || pass.kind == PassKind::optimizer) return std::string(letter);
  return chunks ? fmt::format("{}{}.{}", letter, pass.micro_batch, pass.chunk)
                : fmt::format("{}{}", letter, pass.micro_batch);
}

// Columns to show: all, or those near the marked cell.
std::pair<std::size_t, std::size_t> window(const std::vector<std::vector<std::uint32_t>>& rows,
                                           const std::optional<ScheduleCell>& marked) {
  constexpr std::size_t kNear = 8;
  std::size_t columns = 0;
  for (const auto& row : rows) columns = std::max(columns, row.size());
  if (!marked) return {0, columns};
  const auto& row = rows[static_cast<std::size_t>(marked->stage)];
  const auto column =
      static_cast<std::size_t>(std::find(row.begin(), row.end(), marked->pass) - row.begin());
  return {column - std::min(column, kNear), std::min(columns, column + kNear + 1)};
}

}  // namespace

std::string schedule_table(const ProgramSet& programs, std::optional<ScheduleCell> marked) {
  const auto rows = Slots(programs).rows();
  const auto [first, last] = window(rows, marked);
  bool chunks = false;
  for (const auto& program : programs.by_stage)
    for (const Pass& pass : program->passes) chunks |= pass.chunk != 0;
  std::vector<std::vector<std::string>> cells(rows.size());
  std::size_t width = 0;
  for (std::size_t stage = 0; stage < rows.size(); ++stage) {
    for (std::size_t c = first; c < last; ++c) {
      std::string cell;
      if (c < rows[stage].size() && rows[stage][c] != kNone)
        cell = cell_text(programs.by_stage[stage]->passes[rows[stage][c]], chunks);
      if (marked && marked->stage == static_cast<std::int32_t>(stage) && !cell.empty() &&
          rows[stage][c] == marked->pass)
        cell = fmt::format("[{}]", cell);
      width = std::max(width, cell.size());
      cells[stage].push_back(std::move(cell));
    }
  }
  std::string out;
  for (std::size_t stage = 0; stage < rows.size(); ++stage) {
    std::string line = fmt::format("stage {:>3} |", stage);
    for (const std::string& cell : cells[stage]) line += fmt::format(" {:<{}}", cell, width);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

}  // namespace trainyard
