#include "simulator/windows.h"

#include <algorithm>

namespace trainyard {

int Windows::window_of(Stream stream) {
  const auto* const found = std::find(kWindowStreams.begin(), kWindowStreams.end(), stream);
  return found == kWindowStreams.end() ? -1 : static_cast<int>(found - kWindowStreams.begin());
}

void Windows::launched(const Launch& launch) {
  Queue& queue = queues_[static_cast<std::size_t>(launch.window)];
  queue.steps.push_back(launch.step);
  queue.ends.push_back((queue.ends.empty() ? 0 : queue.ends.back()) + launch.duration);
  fresh_.push_back(launch);
}

void Windows::waited(std::uint32_t step, Stream stream) {
  const int window = window_of(stream);
  if (window < 0) return;
  Queue& queue = queues_[static_cast<std::size_t>(window)];
  if (queue.waited == kNone || queue.waited < step) queue.waited = step;
}

std::vector<Windows::Helper> Windows::take() {
  std::vector<Helper> helpers;
  for (const Launch& launch : fresh_)
    helpers.push_back({StepKind::window, launch.window, launch.step, launch.duration});
  fresh_.clear();
  for (int w = 0; w < kWindows; ++w) {
    Queue& queue = queues_[static_cast<std::size_t>(w)];
    if (queue.waited == kNone || queue.steps.empty()) continue;
    const auto after = std::upper_bound(queue.steps.begin(), queue.steps.end(), queue.waited);
    const std::int64_t ended =
        after == queue.steps.begin()
            ? 0
            : queue.ends[static_cast<std::size_t>(after - queue.steps.begin()) - 1];
    const std::int64_t queued = queue.ends.back() - ended;
    if (queued > 0) helpers.push_back({StepKind::resync, w, queue.waited, queued});
    queue.waited = kNone;
  }
  return helpers;
}

}  // namespace trainyard
