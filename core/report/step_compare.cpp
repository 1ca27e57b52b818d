#include "core/report/step_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "core/error.h"

namespace trainyard {
namespace {

// One instruction in both steps.
struct Match {
  const TracedInstr* a;
  const TracedInstr* b;
};

void require_same_work(const TracedStep& step_a, const TracedStep& step_b, const Match& match) {
  const TracedWork& a = step_a.works[match.a->work];
  const TracedWork& b = step_b.works[match.b->work];
  if (a != b)
    throw ConfigError(fmt::format(
        "instruction {} of rank {} is {} on stream {} in the first trace and {} on stream {} in "
        "the second, though both say that they ran program {}: one of them is damaged",
        match.a->instr, match.a->rank, a.text(), stream_name(a.stream), b.text(),
        stream_name(b.stream), step_a.program_hash));
}

class Comparer {
 public:
  Comparer(const TracedStep& a, const TracedStep& b) : a_(a), b_(b) {
    if (a.program_hash != b.program_hash)
      throw ConfigError(fmt::format(
          "the first trace ran program {}, the second program {}: only steps of one program can be "
          "compared",
          a.program_hash, b.program_hash));
    match();
    if (matches_.empty()) throw ConfigError("the traces have no instruction of a rank in common");
  }

  StepComparison run(std::size_t top) && {
    measure_step();
    for (std::size_t first = 0; first < matches_.size();) {
      std::size_t last = first;
      while (last < matches_.size() && matches_[last].a->rank == matches_[first].a->rank) ++last;
      one_rank(std::span(matches_).subspan(first, last - first));
      first = last;
    }
    list_classes();
    std::ranges::stable_sort(out_.order_changes, {}, &OrderChange::start_a);
    list_most(top);
    return std::move(out_);
  }

 private:
  void match() {
    const auto key = [](const TracedInstr& i) { return std::pair(i.rank, i.instr); };
    auto a = a_.instrs.begin();
    auto b = b_.instrs.begin();
    matches_.reserve(std::min(a_.instrs.size(), b_.instrs.size()));
    while (a != a_.instrs.end() && b != b_.instrs.end()) {
      if (key(*a) < key(*b)) {
        ++a;
      } else if (key(*b) < key(*a)) {
        ++b;
      } else {
        matches_.push_back({&*a++, &*b++});
        require_same_work(a_, b_, matches_.back());
      }
    }
    out_.instructions = static_cast<std::int64_t>(matches_.size());
    out_.only_a = static_cast<std::int64_t>(a_.instrs.size()) - out_.instructions;
    out_.only_b = static_cast<std::int64_t>(b_.instrs.size()) - out_.instructions;
  }

  void measure_step() {
    start_ = {kNever, kNever};
    TimePair end{-1 * kNever, -1 * kNever};
    for (const Match& match : matches_) {
      start_ = {std::min(start_.a, match.a->start), std::min(start_.b, match.b->start)};
      end = {std::max(end.a, match.a->end), std::max(end.b, match.b->end)};
    }
    out_.step = {end.a - start_.a, end.b - start_.b};
  }

  const TracedWork& work(const Match& match) const { return a_.works[match.a->work]; }

  void one_rank(std::span<const Match> all) {
    out_.ranks.push_back({all[0].a->rank, {}, out_.step});
    std::vector<Match> stream_a(all.begin(), all.end());
    std::ranges::sort(stream_a, {}, [this](const Match& m) {
      return std::tuple(work(m).stream, m.a->start, m.a->instr);
    });
    std::vector<Match> stream_b(all.begin(), all.end());
    std::ranges::sort(stream_b, {}, [this](const Match& m) {
      return std::tuple(work(m).stream, m.b->start, m.b->instr);
    });
    // Both hold the same instructions, so every stream stands at the same place.
    for (std::size_t first = 0; first < stream_a.size();) {
      const Stream stream = work(stream_a[first]).stream;
      std::size_t last = first;
      while (last < stream_a.size() && work(stream_a[last]).stream == stream) ++last;
      const std::span in_a = std::span(stream_a).subspan(first, last - first);
      const std::span in_b = std::span(stream_b).subspan(first, last - first);
      one_stream(stream, {in_a, &Match::a, &TimePair::a});
      one_stream(stream, {in_b, &Match::b, &TimePair::b});
      streams_.insert(stream);
      note_order(stream, in_a, in_b);
      first = last;
    }
  }

  // One rank's stream in the order in which one of the steps ran it.
  struct Side {
    std::span<const Match> order;
    const TracedInstr* Match::*instr;
    Time TimePair::*time;
  };

  void one_stream(Stream stream, const Side& side) {
    RankTimes& rank = out_.ranks.back();
    Time covered = start_.*side.time;
    for (const Match& match : side.order) {
      const TracedInstr& instr = *(match.*side.instr);
      const Time time = std::max(Time{}, instr.end - std::max(instr.start, covered));
      covered = std::max(covered, instr.end);
      Sum& sum = sums_[match.a->work];
      sum.time.*side.time += time;
      sum.instructions += side.instr == &Match::a ? 1 : 0;
      if (stream != Stream::compute) continue;
      rank.idle.*side.time -= time;
      if (work(match).group.empty()) rank.kernels.*side.time += time;
    }
  }

  void note_order(Stream stream, std::span<const Match> in_a, std::span<const Match> in_b) {
    const auto [a, b] = std::ranges::mismatch(in_a, in_b, {}, &Match::a, &Match::a);
    if (a == in_a.end()) return;
    out_.order_changes.push_back(
        {a->a->rank, stream, a - in_a.begin(), a->a->instr, b->a->instr, a->a->start - start_.a});
  }

  void list_classes() {
    const auto ranks = static_cast<std::int64_t>(out_.ranks.size());
    const auto step = static_cast<double>(ranks * out_.step.difference().value);
    for (const Stream stream : streams_) {
      std::vector<ClassTimes> rows;
      ClassTimes waiting{stream, "waiting", 0, {ranks * out_.step.a, ranks * out_.step.b}, 0};
      for (const auto& [index, sum] : sums_) {
        if (a_.works[index].stream != stream) continue;
        rows.push_back({stream, a_.works[index].text(), sum.instructions, sum.time, 0});
        waiting.time.a -= sum.time.a;
        waiting.time.b -= sum.time.b;
      }
      std::ranges::sort(rows, {}, [](const ClassTimes& row) {
        return std::pair(-std::abs(row.time.difference().value), row.what);
      });
      rows.push_back(waiting);
      for (ClassTimes& row : rows) {
        row.share = step == 0 ? std::numeric_limits<double>::quiet_NaN()
                              : static_cast<double>(row.time.difference().value) / step;
        out_.classes.push_back(std::move(row));
      }
    }
  }

  void list_most(std::size_t top) {
    const auto time = [](const Match& m) {
      return TimePair{m.a->end - m.a->start, m.b->end - m.b->start};
    };
    top = std::min(top, matches_.size());
    std::ranges::partial_sort(
        matches_, matches_.begin() + static_cast<std::ptrdiff_t>(top), {}, [&](const Match& m) {
          return std::tuple(-std::abs(time(m).difference().value), m.a->rank, m.a->instr);
        });
    for (const Match& m : std::span(matches_).first(top))
      if (time(m).difference().value != 0)
        out_.most.push_back({m.a->rank, m.a->instr, work(m), a_.passes[m.a->pass], time(m)});
  }

  struct Sum {
    std::int64_t instructions = 0;
    TimePair time;
  };

  const TracedStep& a_;
  const TracedStep& b_;
  std::vector<Match> matches_;
  TimePair start_;
  std::map<std::uint32_t, Sum> sums_;  // by index of the work in a_
  std::set<Stream> streams_;
  StepComparison out_;
};

}  // namespace

std::string TracedPass::text() const {
  if (kind.empty()) return "-";
  return fmt::format("{} {}{}", kind, micro_batch,
                     chunk == 0 ? "" : fmt::format(" chunk {}", chunk));
}

StepComparison compare_steps(const TracedStep& a, const TracedStep& b, std::size_t top) {
  return Comparer(a, b).run(top);
}

}  // namespace trainyard
