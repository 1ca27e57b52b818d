#include "backends/common/step_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <type_traits>

#include "core/error.h"

namespace trainyard {
namespace {

static_assert(std::is_trivially_copyable_v<TraceEvent>);

std::string key_of(std::string_view key, RankId rank) {
  return fmt::format("{}/{}", key, index(rank));
}

// The mark, the events, the host.
std::string pack(const StepTimes& times) {
  const auto count = static_cast<std::int64_t>(times.events.size());
  std::string text(sizeof(times.mark) + sizeof(count), '\0');
  std::memcpy(text.data(), &times.mark, sizeof(times.mark));
  std::memcpy(text.data() + sizeof(times.mark), &count, sizeof(count));
  const auto events = std::as_bytes(std::span(times.events));
  text.append(reinterpret_cast<const char*>(events.data()), events.size());
  return text + times.host;
}

StepTimes unpack(std::string_view text, RankId rank) {
  StepTimes out;
  std::int64_t count = 0;
  const auto take = [&](void* to, std::size_t bytes) {
    check(text.size() >= bytes, "rank {} left times that are cut off", index(rank));
    if (bytes > 0) std::memcpy(to, text.data(), bytes);
    text.remove_prefix(bytes);
  };
  take(&out.mark, sizeof(out.mark));
  take(&count, sizeof(count));
  check(count >= 0 && static_cast<std::size_t>(count) <= text.size() / sizeof(TraceEvent),
        "rank {} left times that are cut off", index(rank));
  out.events.resize(static_cast<std::size_t>(count));
  take(out.events.data(), out.events.size() * sizeof(TraceEvent));
  out.host = text;
  return out;
}

}  // namespace

void leave_times(Store& store, std::string_view key, RankId rank, const StepTimes& times) {
  store.set(key_of(key, rank), pack(times));
}

std::vector<TraceEvent> gather_times(Store& store, std::string_view key,
                                     std::span<const RankId> ranks, const StepTimes& own,
                                     std::chrono::milliseconds timeout) {
  std::vector<std::string> keys;
  for (const RankId rank : ranks) keys.push_back(key_of(key, rank));
  const std::vector<std::string> values = wait_for(store, keys, timeout);
  std::map<std::string, Time> clocks{{own.host, Time{}}};  // what `own` is ahead of each host
  std::vector<TraceEvent> out;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    StepTimes times = unpack(values[i], ranks[i]);
    const Time ahead = clocks.try_emplace(times.host, own.mark - times.mark).first->second;
    for (TraceEvent& event : times.events) {
      event.start += ahead;
      event.end += ahead;
    }
    out.insert(out.end(), times.events.begin(), times.events.end());
  }
  return out;
}

void order_events(std::vector<TraceEvent>& events) {
  std::ranges::sort(events, {}, [](const TraceEvent& event) {
    return std::tuple(event.rank, event.start, event.instr);
  });
  const auto first = std::ranges::min_element(events, {}, &TraceEvent::start);
  if (first == events.end()) return;
  const Time origin = first->start;
  for (TraceEvent& event : events) {
    event.start -= origin;
    event.end -= origin;
  }
}

}  // namespace trainyard
