// The inner loops of Island: a gang goes through its program.
#include <algorithm>

#include "simulator/island.h"

namespace trainyard {
namespace {

// First step in issue order among the streams that can go on; kNone: no stream can.
std::uint32_t lowest(const Gang& gang) {
  std::uint32_t at = kNone;
  for (std::size_t s = 0; s < kStreams; ++s)
    at = std::min(at, (gang.blocked >> s & 1) != 0 ? kNone : gang.next[s]);
  return at;
}

// A stream that has to move before the step can start; kAlways: none.
std::uint8_t obstacle(const Gang& gang, const Step& step) {
  for (std::size_t k = 0; k < 3; ++k)
    if (gang.next[step.wait_streams[k]] <= step.waits[k]) return step.wait_streams[k];
  return kAlways;
}

// Goes past `step`; true if other streams may go on now.
bool advance(Gang& gang, const Step& step) {
  gang.next[step.stream] = step.next;
  const std::uint16_t woken = std::exchange(gang.wakes[step.stream], std::uint16_t{0});
  gang.blocked &= static_cast<std::uint16_t>(~woken);
  return woken != 0;
}

// The rows of a step, one number a lane. No row that is written is also read as a wait.
template <int W>
struct Rows {
  const std::size_t lanes;
  const std::int64_t* const first;
  const std::int64_t* const second;
  const std::int64_t* const issuer;
  std::int64_t* const free;
  std::int64_t* const out;
  const std::int64_t delay;

  Rows(Gang& gang, const Step& step, std::size_t width)
      : lanes(W > 0 ? W : width),
        first(gang.slots + step.slots[0] * lanes),
        second(gang.slots + step.slots[1] * lanes),
        issuer(gang.slots + step.slots[2] * lanes),
        free(gang.free + step.stream * lanes),
        out(gang.slots + step.out * lanes),
        delay(step.issue_delay) {}
  std::int64_t start(std::size_t lane) const {
    return std::max(std::max(free[lane], issuer[lane] + delay),
                    std::max(first[lane], second[lane]));
  }
};

template <int W>
void run_timed(const Rows<W>& rows, std::int64_t duration) {
  std::int64_t* __restrict const free = rows.free;
  std::int64_t* __restrict const out = rows.out;
  for (std::size_t lane = 0; lane < (W > 0 ? W : rows.lanes); ++lane) {
    const std::int64_t end = rows.start(lane) + duration;
    free[lane] = end;
    out[lane] = end;
  }
}

// All lanes end together, `duration` after the last of them was ready.
template <int W>
void run_collective(const Rows<W>& rows, std::int64_t duration) {
  std::int64_t latest = 0;
  for (std::size_t lane = 0; lane < rows.lanes; ++lane) latest = std::max(latest, rows.start(lane));
  std::fill_n(rows.free, rows.lanes, latest + duration);
  std::fill_n(rows.out, rows.lanes, latest + duration);
}

// Whether some window may still be open when the step starts.
template <int W>
bool meets_window(const Gang& gang, const Rows<W>& rows) {
  std::int64_t first = INT64_MAX;
  for (std::size_t lane = 0; lane < rows.lanes; ++lane) first = std::min(first, rows.start(lane));
  return first < *std::max_element(gang.windows_end.begin(), gang.windows_end.end());
}

// A collective was launched: its window opens, or stays open if it queues behind another.
template <int W>
void open_window(Gang& gang, const Step& step, const Rows<W>& rows) {
  Window* const windows = gang.windows + step.detail * rows.lanes;
  std::int64_t& latest = gang.windows_end[step.detail];
  for (std::size_t lane = 0; lane < rows.lanes; ++lane) {
    Window& window = windows[lane];
    const std::int64_t ready =
        std::max(rows.issuer[lane] + rows.delay, std::max(rows.first[lane], rows.second[lane]));
    if (ready > window.to) window = {ready, ready};
    window.to += step.duration;
    latest = std::max(latest, window.to);
  }
}

// What was waited for ended just now, and `duration` more was queued behind it.
template <int W>
void resync_window(Gang& gang, const Step& step, const Rows<W>& rows) {
  Window* const windows = gang.windows + step.detail * rows.lanes;
  std::int64_t& latest = gang.windows_end[step.detail];
  for (std::size_t lane = 0; lane < rows.lanes; ++lane) {
    Window& window = windows[lane];
    if (rows.first[lane] > window.to) window.from = rows.first[lane];
    window.to = std::max(window.to, rows.first[lane] + step.duration);
    latest = std::max(latest, window.to);
  }
}

}  // namespace

void Island::run_queue() {
  switch (width_) {
    case 1:
      return walk_queue<1>();
    case 2:
      return walk_queue<2>();
    case 4:
      return walk_queue<4>();
    case 8:
      return walk_queue<8>();
    default:
      return walk_queue<0>();
  }
}

template <int W>
void Island::walk_queue() {
  for (std::size_t n = 0; n < queue_.size(); ++n) {
    Gang& gang = gangs_[static_cast<std::size_t>(queue_[n])];
    walk<W>(gang);
    gang.queued = false;
  }
  queue_.clear();
}

template <int W>
void Island::walk(Gang& gang) {
  const Step* const steps = gang.program->steps.data();
  for (std::uint32_t at = lowest(gang); at != kNone;) {
    const Step& step = steps[at];
    if (gang.next[step.stream] != at || (gang.blocked >> step.stream & 1) != 0) {
      at = lowest(gang);
      continue;
    }
    if (const std::uint8_t on = obstacle(gang, step); on != kAlways) {
      const auto bit = static_cast<std::uint16_t>(1U << step.stream);
      gang.wakes[on] |= bit;
      gang.blocked |= bit;
      ++at;
      continue;
    }
    if (recording_ != nullptr) record_start(gang, at);
    if (step.kind == StepKind::shared) {
      post(gang, at);
      at = lowest(gang);
      continue;
    }
    execute<W>(gang, at);
    if (recording_ != nullptr) record_end(gang, at);
    at = advance(gang, step) ? lowest(gang) : at + 1;
  }
}

template <int W>
void Island::execute(Gang& gang, std::uint32_t at) {
  const Step& step = gang.program->steps[at];
  const Rows<W> rows(gang, step, width_);
  switch (step.kind) {
    case StepKind::gemm:
      if (!shared_.empty()) return run_on_shared_cores(gang, at);
      if (gang.disturbed || meets_window(gang, rows)) return run_kernel(gang, at);
      return run_timed(rows, step.duration);
    case StepKind::kernel:
      if (!shared_.empty()) return run_on_shared_cores(gang, at);
      if (gang.disturbed) return run_kernel(gang, at);
      return run_timed(rows, step.duration);
    case StepKind::timed:
      return run_timed(rows, step.duration);
    case StepKind::collective:
      return run_collective(rows, scene_.times.collective(step.detail, gang.tensor_shape));
    case StepKind::window:
      return open_window(gang, step, rows);
    case StepKind::resync:
      return resync_window(gang, step, rows);
    case StepKind::shared:
      return;
  }
}

void Island::run_kernel(Gang& gang, std::uint32_t at) {
  const Step& step = gang.program->steps[at];
  const auto stage = static_cast<std::size_t>(gang.stage);
  starts_.resize(width_);
  ends_.resize(width_);
  undisturbed_.resize(width_);
  for (std::size_t lane = 0; lane < width_; ++lane) {
    starts_[lane] = start_of(gang, step, lane);
    undisturbed_[lane] = ends_[lane] = starts_[lane] + step.duration;
  }
  for (std::size_t lane = 0; gang.disturbed && lane < width_; ++lane)
    if (const RankDisturbance* const disturbance = disturbances_[stage * width_ + lane])
      ends_[lane] = disturbance->end(starts_[lane], step.duration, gang.program->instr_of[at]);
  if (step.kind == StepKind::gemm) {
    stretch_by_windows(gang, ends_);
    if (gang.disturbed && recording_ != nullptr) stretch_by_windows(gang, undisturbed_);
  }
  const bool computes = step.stream == static_cast<std::uint8_t>(Stream::compute);
  for (std::size_t lane = 0; lane < width_; ++lane) {
    gang.free[step.stream * width_ + lane] = ends_[lane];
    gang.slots[step.out * width_ + lane] = ends_[lane];
    if (computes) gang.kernel_excess += ends_[lane] - starts_[lane] - step.duration;
    if (gang.disturbed && recording_ != nullptr)
      recording_->gangs[stage].excess[at * width_ + lane] = ends_[lane] - undisturbed_[lane];
  }
}

// What others of the node do at the time is known, and so are disturbances.
void Island::run_on_shared_cores(Gang& gang, std::uint32_t at) {
  const Step& step = gang.program->steps[at];
  const bool computes = step.stream == static_cast<std::uint8_t>(Stream::compute);
  for (std::size_t lane = 0; lane < width_; ++lane) {
    const std::int64_t time = shared_[static_cast<std::size_t>(gang.stage) * width_ + lane][at];
    const std::int64_t end = start_of(gang, step, lane) + time;
    gang.free[step.stream * width_ + lane] = end;
    gang.slots[step.out * width_ + lane] = end;
    if (computes) gang.kernel_excess += time - step.duration;
  }
}

void Island::stretch_by_windows(const Gang& gang, std::vector<std::int64_t>& ends) const {
  const std::int64_t first = *std::min_element(starts_.begin(), starts_.end());
  for (std::size_t w = 0; w < kWindows; ++w) {
    if (gang.windows_end[w] <= first) continue;
    for (std::size_t lane = 0; lane < width_; ++lane)
      ends[lane] = stretch(starts_[lane], ends[lane] - starts_[lane],
                           gang.windows[w * width_ + lane], scene_.contention);
  }
}

void Island::land(Gang& gang, std::uint8_t stream) {
  const std::uint32_t at = gang.next[stream];
  const Step& step = gang.program->steps[at];
  const std::int64_t* const end = row(gang.end, stream);
  std::copy_n(end, width_, row(gang.free, stream));
  std::copy_n(end, width_, row(gang.slots, step.out));
  const auto others = static_cast<std::uint16_t>(~(1U << stream));
  gang.posted &= others;
  gang.blocked &= others;
  if (recording_ != nullptr) record_end(gang, at);
  advance(gang, step);
  if (!gang.queued) queue_.push_back(gang.stage);
  gang.queued = true;
}

void Island::record_start(const Gang& gang, std::uint32_t at) {
  const Step& step = gang.program->steps[at];
  auto& start = recording_->gangs[static_cast<std::size_t>(gang.stage)].start;
  for (std::size_t lane = 0; lane < width_; ++lane)
    start[at * width_ + lane] = start_of(gang, step, lane);
}

void Island::record_end(const Gang& gang, std::uint32_t at) {
  const Step& step = gang.program->steps[at];
  auto& end = recording_->gangs[static_cast<std::size_t>(gang.stage)].end;
  for (std::size_t lane = 0; lane < width_; ++lane)
    end[at * width_ + lane] = gang.free[step.stream * width_ + lane];
}

}  // namespace trainyard
