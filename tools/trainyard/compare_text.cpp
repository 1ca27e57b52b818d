#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "core/report/text.h"
#include "tools/trainyard/compare.h"

namespace trainyard {
namespace {

class CompareText {
 public:
  explicit CompareText(const StepComparison& comparison)
      : comparison_(comparison), unit_(to_seconds(comparison.step.a)) {}

  std::string text(std::size_t top) const {
    std::string out = head() + "\n" + classes();
    if (!comparison_.most.empty()) out += "\n" + instructions();
    return out + "\n" + ranks(top) + "\n" + order();
  }

 private:
  std::string time(Time time) const { return unit_.text(to_seconds(time)); }

  std::string in_unit(const char* what) const { return fmt::format("{} {}", what, unit_.name()); }

  void append(std::vector<std::string>& cells, TimePair pair) const {
    cells.push_back(time(pair.a));
    cells.push_back(time(pair.b));
    cells.push_back(unit_.signed_text(to_seconds(pair.difference())));
  }

  std::string head() const {
    std::string out =
        fmt::format("{} instructions of {} ranks compared", grouped(comparison_.instructions),
                    grouped(static_cast<std::int64_t>(comparison_.ranks.size())));
    if (comparison_.only_a + comparison_.only_b > 0)
      out += fmt::format("; left out: {} that only A has, {} that only B has",
                         grouped(comparison_.only_a), grouped(comparison_.only_b));
    TextTable table;
    table.row({"", in_unit("A"), in_unit("B"), "difference", "B / A"});
    std::vector<std::string> cells{"step time"};
    append(cells, comparison_.step);
    cells.push_back(comparison_.step.a.value > 0
                        ? fmt::format("{:.3f}", ratio(comparison_.step.b, comparison_.step.a))
                        : "-");
    table.row(std::move(cells));
    return out + "\n\n" + table.text();
  }

  std::string classes() const {
    TextTable table;
    table.row(
        {"all ranks, by stream", in_unit("A"), in_unit("B"), "difference", "% of the step's"});
    std::optional<Stream> stream;
    for (const ClassTimes& row : comparison_.classes) {
      if (stream != row.stream) table.row({std::string(stream_name(row.stream))});
      stream = row.stream;
      std::vector<std::string> cells{fmt::format("  {}", row.what)};
      append(cells, row.time);
      cells.push_back(std::isnan(row.share) ? "-" : percent(row.share));
      table.row(std::move(cells));
    }
    return table.text();
  }

  std::string instructions() const {
    TextTable table;
    table.row(
        {"differ most", "rank", "instruction", "pass", in_unit("A"), in_unit("B"), "difference"});
    for (const InstrDifference& row : comparison_.most) {
      std::vector<std::string> cells{row.work.text(), std::to_string(row.rank),
                                     std::to_string(row.instr), row.pass.text()};
      append(cells, row.time);
      table.row(std::move(cells));
    }
    return table.text();
  }

  // Those whose kernels differ most, then those whose idle time does.
  std::string ranks(std::size_t top) const {
    std::vector<const RankTimes*> rows;
    for (const RankTimes& row : comparison_.ranks) rows.push_back(&row);
    std::ranges::sort(rows, {}, [](const RankTimes* row) {
      return std::tuple(-std::abs(row->kernels.difference().value),
                        -std::abs(row->idle.difference().value), row->rank);
    });
    rows.resize(std::min(rows.size(), top));
    TextTable table;
    table.row(
        {"rank", in_unit("kernels A"), "B", "difference", in_unit("idle A"), "B", "difference"});
    for (const RankTimes* row : rows) {
      std::vector<std::string> cells{std::to_string(row->rank)};
      append(cells, row->kernels);
      append(cells, row->idle);
      table.row(std::move(cells));
    }
    return table.text();
  }

  std::string order() const {
    if (comparison_.order_changes.empty()) return "every stream ran in the same order\n";
    const OrderChange& first = comparison_.order_changes.front();
    return fmt::format(
        "order differs on {} streams; first on stream {} of rank {}: after {} instructions A ran "
        "instruction {}, B instruction {}\n",
        comparison_.order_changes.size(), stream_name(first.stream), first.rank, first.position,
        first.instr_a, first.instr_b);
  }

  const StepComparison& comparison_;
  TimeUnit unit_;
};

}  // namespace

std::string compare_text(const StepComparison& comparison, std::size_t top) {
  return CompareText(comparison).text(top);
}

}  // namespace trainyard
