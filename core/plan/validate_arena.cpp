#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/plan/validate_program.h"
#include "core/program/text.h"

namespace trainyard {
namespace {

struct Place {
  std::int64_t begin = 0, end = 0;
  bool operator==(const Place&) const = default;
};

// Numbers the distinct places; programs of many buffers have few. Open addressing.
class PlaceTable {
 public:
  std::uint32_t number(const Place& place) {
    if (2 * places_.size() >= slots_.size()) grow();
    std::size_t slot = find(place);
    if (slots_[slot] == kNone) {
      slots_[slot] = static_cast<std::uint32_t>(places_.size());
      places_.push_back(place);
    }
    return slots_[slot];
  }
  const std::vector<Place>& places() const { return places_; }

 private:
  std::size_t find(const Place& place) const {
    const std::uint64_t mixed = static_cast<std::uint64_t>(place.begin) * 0x9E3779B97F4A7C15u ^
                                static_cast<std::uint64_t>(place.end) * 0xC4CEB9FE1A85EC53u;
    std::size_t slot = (mixed ^ mixed >> 32) & (slots_.size() - 1);
    while (slots_[slot] != kNone && places_[slots_[slot]] != place)
      slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }
  void grow() {
    slots_.assign(slots_.size() * 4, kNone);
    for (std::uint32_t p = 0; p < places_.size(); ++p) slots_[find(places_[p])] = p;
  }

  std::vector<std::uint32_t> slots_ = std::vector<std::uint32_t>(256, kNone);
  std::vector<Place> places_;
};

// For each place, the places that it shares bytes with, itself included.
std::vector<std::vector<std::uint32_t>> overlaps(const std::vector<Place>& places) {
  std::vector<std::uint32_t> order(places.size());
  for (std::uint32_t p = 0; p < order.size(); ++p) order[p] = p;
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return places[a].begin < places[b].begin; });
  std::vector<std::vector<std::uint32_t>> result(places.size());
  std::vector<std::uint32_t> open;
  for (const std::uint32_t p : order) {
    std::erase_if(open, [&](std::uint32_t o) { return places[o].end <= places[p].begin; });
    for (const std::uint32_t o : open) {
      result[o].push_back(p);
      result[p].push_back(o);
    }
    result[p].push_back(p);
    open.push_back(p);
  }
  return result;
}

class ArenaCheck {
 public:
  ArenaCheck(const Program& program, const Liveness& live, Violations& violations)
      : program_(program), live_(live), violations_(violations) {}

  void run() {
    check_persistent();
    check_views();
    const auto order = live_.by_first_use();
    std::vector<std::uint32_t> place_of;
    PlaceTable table;
    for (const std::uint32_t buffer : order) {
      const Place place = at(buffer);
      if (place.begin < program_.persistent_bytes.value || place.end > program_.arena_bytes.value)
        add(buffer, "lies outside the transient part of the arena");
      place_of.push_back(table.number(place));
    }
    const auto shared = overlaps(table.places());
    std::vector<std::uint32_t> occupant(table.places().size(), kNone);
    for (std::size_t o = 0; o < order.size(); ++o) {
      const Clock born = live_.born(order[o]);
      for (const std::uint32_t place : shared[place_of[o]])
        if (occupant[place] != kNone && !live_.over(occupant[place], born))
          add(order[o], "takes memory of " + buffer_text(program_, occupant[place]) +
                            " whose uses may not have ended");
      occupant[place_of[o]] = order[o];
    }
  }

 private:
  Place at(std::uint32_t buffer) const {
    const std::int64_t begin = program_.buffers[buffer].offset.value;
    return {begin, begin + program_.buffer_size(buffer).value};
  }
  void add(std::uint32_t buffer, const std::string& what) {
    const std::uint32_t first = live_.first_use(buffer);
    violations_.push_back(
        (first != kNone ? where(program_, first) : fmt::format("stage {}", program_.stage)) + ": " +
        buffer_text(program_, buffer) + " " + what);
  }

  void check_persistent() {
    std::vector<std::uint32_t> persistent;
    for (std::uint32_t b = 0; b < program_.buffers.size(); ++b)
      if (program_.buffers[b].parent == kNone && is_persistent(program_, b))
        persistent.push_back(b);
    std::sort(persistent.begin(), persistent.end(),
              [&](std::uint32_t a, std::uint32_t b) { return at(a).begin < at(b).begin; });
    std::int64_t end = 0;
    for (const std::uint32_t b : persistent) {
      if (at(b).begin < end || at(b).end > program_.persistent_bytes.value)
        add(b, "lies outside the persistent part of the arena or on another buffer");
      end = std::max(end, at(b).end);
    }
  }

  void check_views() {
    for (std::uint32_t b = 0; b < program_.buffers.size(); ++b) {
      const BufferSpec& spec = program_.buffers[b];
      if (spec.parent == kNone) continue;
      const Bytes parent = program_.buffers[spec.parent].offset;
      if (parent.value >= 0 && spec.offset != parent + spec.view_offset)
        add(b, "does not lie where its parent has it");
    }
  }

  const Program& program_;
  const Liveness& live_;
  Violations& violations_;
};

}  // namespace

void check_arena(const Program& program, const Liveness& live, Violations& violations) {
  ArenaCheck(program, live, violations).run();
}

}  // namespace trainyard
