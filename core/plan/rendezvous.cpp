#include "core/plan/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <tuple>

#include "core/plan/validate.h"
#include "core/program/accesses.h"
#include "core/program/text.h"

namespace trainyard {
namespace {

// An instruction that needs other stages. Everything else ends as soon as what it waits for has, so
// only these need to be played.
struct Event {
  std::int32_t stage = 0;
  std::uint32_t instr = 0;
  std::uint32_t unit = 0;      // events of one unit start and end together
  std::uint32_t exchange = 0;  // events of one exchange meet
  bool met = false;
};
struct JointStart {
  std::vector<std::uint32_t> events;
  std::array<std::uint32_t, kStreams> needs{};  // events of each stream that end before it starts
  bool started = false;
};
struct Exchange {  // a send and its receive, or the members' parts of a collective
  std::vector<std::uint32_t> events;
  std::size_t started = 0;
};

bool between_stages(const Instr& instr) {
  if (instr.op == Op::send || instr.op == Op::recv) return true;
  const bool collective = instr.op >= Op::all_gather && instr.op <= Op::broadcast;
  return collective && (instr.group == Group::pipeline || instr.group == Group::embedding ||
                        instr.group == Group::model || instr.group == Group::world);
}

class Rendezvous {
 public:
  Rendezvous(const ProgramSet& programs, const std::vector<HappensBefore>& order,
             Violations& violations)
      : programs_(programs), order_(order), violations_(violations) {}

  void run() {
    const std::size_t before = violations_.size();
    streams_.resize(programs_.by_stage.size());
    ended_.resize(programs_.by_stage.size());
    for (std::int32_t stage = 0; stage < stages(); ++stage) collect(stage);
    pair_transfers();
    match_collectives();
    if (violations_.size() > before) return;  // the rest would only repeat it
    play();
    report_blocked();
  }

 private:
  std::int32_t stages() const { return static_cast<std::int32_t>(programs_.by_stage.size()); }
  const Program& program(std::int32_t stage) const { return *programs_.by_stage[stage]; }
  const Instr& instr(const Event& event) const { return program(event.stage).code[event.instr]; }
  std::string where(std::uint32_t event) const {
    return trainyard::where(program(events_[event].stage), events_[event].instr);
  }
  std::vector<std::uint32_t>& on_stream(std::int32_t stage, Stream stream) {
    return streams_[stage][static_cast<std::size_t>(stream)];
  }

  // Gathers a stage's events and what each unit needs.
  void collect(std::int32_t stage) {
    const std::span<const Instr> code(program(stage).code);
    for (std::size_t i = 0; i < code.size(); ++i) {
      if (!between_stages(code[i])) continue;
      const auto group = group_at(code, i);
      const auto unit = static_cast<std::uint32_t>(units_.size());
      units_.emplace_back().needs = needs(stage, order_[stage].start(i));
      for (std::size_t m = 0; m < group.size(); ++m) {
        const auto event = static_cast<std::uint32_t>(events_.size());
        events_.push_back({stage, static_cast<std::uint32_t>(i + m), unit});
        units_[unit].events.push_back(event);
        on_stream(stage, group[m].stream).push_back(event);
      }
      i += group.size() - 1;
    }
  }
  std::array<std::uint32_t, kStreams> needs(std::int32_t stage, const Clock& start) const {
    std::array<std::uint32_t, kStreams> result{};
    for (int s = 0; s < kStreams; ++s) {
      const std::vector<std::uint32_t>& list = streams_[stage][s];
      const auto after = std::partition_point(list.begin(), list.end(), [&](std::uint32_t e) {
        return static_cast<std::int32_t>(events_[e].instr) < start.at[s];
      });
      result[s] = static_cast<std::uint32_t>(after - list.begin());
    }
    return result;
  }

  // A channel is a sender, a direction and a tag.
  void pair_transfers() {
    using Channel = std::tuple<std::int32_t, std::int32_t, std::uint32_t>;
    std::vector<std::pair<Channel, std::uint32_t>> sends, recvs;
    for (std::uint32_t e = 0; e < events_.size(); ++e) {
      const Instr& at = instr(events_[e]);
      if (at.op == Op::send) sends.push_back({{events_[e].stage, at.peer, at.what}, e});
      if (at.op != Op::recv) continue;
      const std::int32_t sender = ((events_[e].stage + at.peer) % stages() + stages()) % stages();
      recvs.push_back({{sender, -at.peer, at.what}, e});
    }
    std::sort(sends.begin(), sends.end());
    std::sort(recvs.begin(), recvs.end());
    for (const auto* list : {&sends, &recvs})
      for (std::size_t i = 1; i < list->size(); ++i)
        if ((*list)[i].first == (*list)[i - 1].first)
          violations_.push_back(where((*list)[i].second) + " has the tag of " +
                                where((*list)[i - 1].second));
    for (std::size_t s = 0, r = 0; s < sends.size() || r < recvs.size();) {
      if (r == recvs.size() || (s < sends.size() && sends[s].first < recvs[r].first))
        violations_.push_back(where(sends[s++].second) + " has no matching receive");
      else if (s == sends.size() || recvs[r].first < sends[s].first)
        violations_.push_back(where(recvs[r++].second) + " has no matching send");
      else
        pair(sends[s++].second, recvs[r++].second);
    }
  }
  void pair(std::uint32_t send, std::uint32_t recv) {
    compare(send, recv);
    meet({send, recv});
  }
  void meet(std::vector<std::uint32_t> events) {
    for (const std::uint32_t e : events)
      events_[e].exchange = static_cast<std::uint32_t>(exchanges_.size());
    exchanges_.push_back({std::move(events), 0});
  }
  DType dtype(std::uint32_t event) const {
    const Program& p = program(events_[event].stage);
    const auto operands = operands_of(p, instr(events_[event]));
    return operands.empty() ? DType::uint8
                            : p.buffer_types[p.buffers[operands[0].buffer].type].dtype;
  }
  void compare(std::uint32_t a, std::uint32_t b) {
    const Instr &x = instr(events_[a]), &y = instr(events_[b]);
    if (x.bytes != y.bytes)
      violations_.push_back(fmt::format("{} has {} bytes, {} has {} bytes", where(a), x.bytes.value,
                                        where(b), y.bytes.value));
    if (dtype(a) != dtype(b))
      violations_.push_back(fmt::format("{} has {}, {} has {}", where(a), dtype_name(dtype(a)),
                                        where(b), dtype_name(dtype(b))));
  }

  // The k-th collective of a group on one stage meets the k-th on every other.
  void match_collectives() {
    for (const Group group : {Group::pipeline, Group::embedding, Group::model, Group::world}) {
      std::vector<std::vector<std::uint32_t>> lists(programs_.by_stage.size());
      for (std::uint32_t e = 0; e < events_.size(); ++e) {
        const Instr& at = instr(events_[e]);
        if (at.op == Op::send || at.op == Op::recv || at.group != group) continue;
        if (group == Group::embedding && events_[e].stage != 0 && events_[e].stage != stages() - 1)
          violations_.push_back(where(e) + ": only the first and last stage hold embeddings");
        lists[events_[e].stage].push_back(e);
      }
      if (group == Group::embedding && stages() > 1) lists = {lists.front(), lists.back()};
      match(lists);
    }
  }
  void match(const std::vector<std::vector<std::uint32_t>>& lists) {
    const auto [fewest, most] =
        std::minmax_element(lists.begin(), lists.end(),
                            [](const auto& a, const auto& b) { return a.size() < b.size(); });
    if (fewest->size() < most->size())
      violations_.push_back(where((*most)[fewest->size()]) + " has no match on every stage");
    for (std::size_t k = 0; k < fewest->size(); ++k) {
      std::vector<std::uint32_t> members;
      for (const auto& list : lists) members.push_back(list[k]);
      for (std::size_t m = 1; m < members.size(); ++m) compare_collectives(members[0], members[m]);
      meet(std::move(members));
    }
  }
  void compare_collectives(std::uint32_t a, std::uint32_t b) {
    const Instr &x = instr(events_[a]), &y = instr(events_[b]);
    if (x.op != y.op || x.what != y.what || x.peer != y.peer)
      violations_.push_back(where(a) + " meets " + where(b));
    else
      compare(a, b);
  }

  // Starts every unit whose needs are met, until nothing moves.
  void play() {
    std::vector<std::int32_t> awake;
    for (std::int32_t stage = 0; stage < stages(); ++stage) awake.push_back(stage);
    while (!awake.empty()) {
      const std::int32_t stage = awake.back();
      awake.pop_back();
      for (int s = 0; s < kStreams; ++s) {
        while (ended_[stage][s] < streams_[stage][s].size()) {
          const std::uint32_t head = streams_[stage][s][ended_[stage][s]];
          if (!try_start(events_[head].unit, stage, awake)) break;
        }
      }
    }
  }
  // Starts a unit if it can be; true if it has ended, too.
  bool try_start(std::uint32_t unit, std::int32_t stage, std::vector<std::int32_t>& awake) {
    JointStart& u = units_[unit];
    if (u.started) return false;
    for (int s = 0; s < kStreams; ++s)
      if (ended_[stage][s] < u.needs[s]) return false;
    u.started = true;
    for (const std::uint32_t e : u.events) {
      Exchange& exchange = exchanges_[events_[e].exchange];
      if (++exchange.started < exchange.events.size()) continue;
      for (const std::uint32_t member : exchange.events) events_[member].met = true;
      for (const std::uint32_t member : exchange.events)
        if (events_[member].unit != unit) end_if_met(events_[member].unit, awake);
    }
    return end_if_met(unit, awake);
  }
  bool end_if_met(std::uint32_t unit, std::vector<std::int32_t>& awake) {
    const std::vector<std::uint32_t>& members = units_[unit].events;
    for (const std::uint32_t e : members)
      if (!events_[e].met) return false;
    for (const std::uint32_t e : members)
      ++ended_[events_[e].stage][static_cast<std::size_t>(instr(events_[e]).stream)];
    awake.push_back(events_[members[0]].stage);
    return true;
  }

  // An event that has not ended and that keeps `event` from ending.
  std::uint32_t blocker(std::uint32_t event) const {
    const JointStart& unit = units_[events_[event].unit];
    const std::int32_t stage = events_[event].stage;
    if (!unit.started) {
      for (int s = 0; s < kStreams; ++s)
        if (ended_[stage][s] < unit.needs[s]) return streams_[stage][s][ended_[stage][s]];
    }
    for (const std::uint32_t member : unit.events) {
      if (events_[member].met) continue;
      for (const std::uint32_t other : exchanges_[events_[member].exchange].events)
        if (!units_[events_[other].unit].started) return other;
    }
    return event;
  }

  void report_blocked() {
    for (std::int32_t stage = 0; stage < stages(); ++stage) {
      for (int s = 0; s < kStreams; ++s) {
        if (ended_[stage][s] == streams_[stage][s].size()) continue;
        return report_cycle(streams_[stage][s][ended_[stage][s]]);
      }
    }
  }
  void report_cycle(std::uint32_t event) {
    std::vector<std::uint32_t> path;
    while (std::find(path.begin(), path.end(), event) == path.end()) {
      path.push_back(event);
      event = blocker(event);
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), event));
    std::string text = "deadlock:\n";
    for (std::size_t e = 0; e < path.size(); ++e)
      text += fmt::format("  {} of {} waits for {}\n", where(path[e]), buffer(path[e]),
                          where(path[(e + 1) % path.size()]));
    const Event& first = events_[path[0]];
    std::optional<ScheduleCell> cell;
    if (instr(first).pass != kNone) cell = {first.stage, instr(first).pass};
    violations_.push_back(text + schedule_table(programs_, cell));
  }
  std::string buffer(std::uint32_t event) const {
    const Program& p = program(events_[event].stage);
    const auto operands = operands_of(p, instr(events_[event]));
    return operands.empty() ? "no buffer" : buffer_text(p, operands[0].buffer);
  }

  const ProgramSet& programs_;
  const std::vector<HappensBefore>& order_;
  Violations& violations_;
  std::vector<Event> events_;
  std::vector<JointStart> units_;
  std::vector<Exchange> exchanges_;
  std::vector<std::array<std::vector<std::uint32_t>, kStreams>> streams_;  // events, by stage
  std::vector<std::array<std::size_t, kStreams>> ended_;  // how many of them have ended
};

}  // namespace

void check_rendezvous(const ProgramSet& programs, const std::vector<HappensBefore>& order,
                      Violations& violations) {
  Rendezvous(programs, order, violations).run();
}

}  // namespace trainyard
