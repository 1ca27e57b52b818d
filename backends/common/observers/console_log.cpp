#include "backends/common/observers/console_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/report/text.h"

namespace trainyard {
namespace {

constexpr Time kRedraw{100'000'000};
constexpr int kBarCells = 20;
constexpr const char* kWipe = "\r\033[K";

std::string time_text(Time time) {
  const TimeUnit unit(to_seconds(time));
  return unit.text(to_seconds(time)) + " " + unit.name();
}

// "45 s", "12 min 5 s", "3 h 12 min", "2 d 3 h": two units are as much as an estimate is worth.
std::string remaining_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::ceil(seconds));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
  return fmt::format("{} d {} h", s / 86400, s % 86400 / 3600);
}

}  // namespace

ConsoleLog::ConsoleLog(std::int64_t log_steps, ReportFile out, std::optional<ReportFile> bar)
    : log_steps_(log_steps), out_(std::move(out)), bar_(std::move(bar)) {}

void ConsoleLog::begin(const RunFacts& facts) {
  facts_ = facts;
  std::string line =
      fmt::format("{}: {} {}, {} steps of {} tokens, program {:016x}", facts.job,
                  grouped(facts.ranks), facts.ranks == 1 ? "rank" : "ranks",
                  grouped(facts.total_steps), grouped(facts.tokens_per_step), facts.program_hash);
  if (facts.steps_done > 0)
    line += fmt::format(", resumed after step {}", grouped(facts.steps_done));
  print(line);
}

void ConsoleLog::step(const StepRecord& record) {
  Interval& sum = interval_;
  sum.rate.add(record);
  sum.data_wait += record.data_wait;
  sum.loss += record.loss;
  sum.steps += 1;
  sum.skipped += record.skipped;
  if (!record.skipped && !std::isnan(record.grad_norm)) {
    sum.grad_norm += record.grad_norm;
    sum.measured += 1;
  }
  sum.last = record;
  whole_.add(record);
  steps_ += 1;
  if (record.step % log_steps_ == 0) finish_interval();
  if (!bar_shown_ || whole_.time - drawn_at_ >= kRedraw) draw_bar();
}

void ConsoleLog::evaluation(const EvaluationRecord& record) {
  print(fmt::format("{}  validation loss {:.4f} over {} sequences, {}", step_of(record.step),
                    record.loss, grouped(record.sequences), time_text(record.time)));
}

void ConsoleLog::checkpoint(const CheckpointRecord& record) {
  print(fmt::format("{}  checkpoint {}, {} GiB, steps stood still for {}, written in {}",
                    step_of(record.step), record.path, gib(record.bytes), time_text(record.blocked),
                    time_text(record.written_in)));
}

void ConsoleLog::end(const RunEnd& end) {
  finish_interval();
  wipe_bar();
  if (!end.failure.empty())
    print(fmt::format("{}  ended early: {}", step_of(end.step), end.failure));
}

std::string ConsoleLog::step_of(std::int64_t step) const {
  const std::string total = grouped(facts_.total_steps);
  return fmt::format("step {:>{}}/{}", grouped(step), total.size(), total);
}

std::string ConsoleLog::interval_line() const {
  const Interval& sum = interval_;
  const double steps = static_cast<double>(sum.steps);
  std::string out = fmt::format("{}  loss {:7.4f}  lr {:.3e}", step_of(sum.last.step),
                                sum.loss / steps, sum.last.learning_rate);
  if (sum.measured > 0)
    out += fmt::format("  grad norm {:7.4f}", sum.grad_norm / static_cast<double>(sum.measured));
  if (sum.rate.time > Time{})
    out += fmt::format("  {:>9} tokens/s",
                       grouped(static_cast<std::int64_t>(sum.rate.tokens_per_s())));
  const double mfu = sum.rate.mfu(facts_);
  out += std::isfinite(mfu) ? fmt::format("  MFU {:>4} %", percent(mfu)) : "  MFU n/a";
  out += fmt::format("  memory {} GiB", gib(facts_.peak_memory));
  if (sum.rate.time > Time{})
    out += fmt::format("  data wait {:>4} %", percent(ratio(sum.data_wait, sum.rate.time)));
  if (sum.last.loss_scale != 1) out += fmt::format("  loss scale {:g}", sum.last.loss_scale);
  if (sum.skipped > 0) out += fmt::format("  {} skipped", sum.skipped);
  return out;
}

void ConsoleLog::finish_interval() {
  if (interval_.steps == 0) return;
  print(interval_line());
  interval_ = {};
}

void ConsoleLog::print(const std::string& line) {
  wipe_bar();
  out_.write(line + "\n");
}

void ConsoleLog::wipe_bar() {
  if (!bar_shown_) return;
  bar_->write(kWipe);
  bar_shown_ = false;
}

void ConsoleLog::draw_bar() {
  if (!bar_) return;
  const std::int64_t done = facts_.steps_done + steps_, total = facts_.total_steps;
  const double part =
      total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 1;
  const int cells = static_cast<int>(part * kBarCells);
  const double left = to_seconds(whole_.time) / static_cast<double>(steps_) *
                      static_cast<double>(std::max<std::int64_t>(total - done, 0));
  bar_->write(fmt::format("{}{} [{:#<{}}{:.<{}}] {:.0f} %, {} left", kWipe, step_of(done), "",
                          cells, "", kBarCells - cells, std::floor(part * 100),
                          remaining_text(left)));
  bar_shown_ = true;
  drawn_at_ = whole_.time;
}

std::optional<ReportFile> progress_terminal() {
  ReportFile out = ReportFile::standard_error();
  if (!out.is_terminal()) return std::nullopt;
  return out;
}

}  // namespace trainyard
