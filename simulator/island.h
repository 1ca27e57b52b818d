#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "simulator/crossing.h"
#include "simulator/flow_ends.h"
#include "simulator/scene.h"
#include "simulator/stretch.h"

namespace trainyard {

// The tensor-parallel ranks of one stage and replica. They execute the same steps, each lane with
// its own clocks; all times are in ns, a row of one number a lane.
struct Gang {
  const CompiledProgram* program = nullptr;
  std::int32_t stage = 0;
  std::array<std::uint32_t, kStreams + 1> next{};   // step of each stream that has not ended
  std::array<std::uint16_t, kStreams + 1> wakes{};  // streams to look at when this one moves
  std::array<std::uint16_t, kStreams> open{};       // transfers of a posted step still to end
  std::uint16_t blocked = 0;                        // streams that cannot go on at present
  std::uint16_t posted = 0;                         // … because others have to come
  bool queued = false, disturbed = false;
  std::int64_t* free = nullptr;   // [stream] when its last step ended
  std::int64_t* ready = nullptr;  // [stream] when its posted step could start
  std::int64_t* end = nullptr;    // [stream] latest end among the transfers of that step
  std::int64_t* slots = nullptr;  // [slot] end times that somebody waits for
  Window* windows = nullptr;      // [window]
  std::array<std::int64_t, kWindows> windows_end{};  // of each, the latest lane's
  std::int64_t kernel_excess = 0;  // compute stream, beyond CompiledProgram::kernel_time
  Bytes sent, received;            // all lanes
  std::uint32_t tensor_shape = 0;
};

// What happened to every step of an island's gangs, for the critical path and traces.
struct Recording {
  struct Lanes {
    // [step][lane]. Shared steps and collectives start when the rank itself was ready.
    std::vector<std::int64_t> start, end;
    std::vector<std::int64_t> excess;  // due to disturbances; empty if there are none
  };
  std::size_t lanes = 1;
  std::vector<Lanes> gangs;  // by stage
};

// All gangs of one replica. They meet each other in transfers and collectives, other islands only
// in Crossings.
class Island {
 public:
  // `ends` is read and written for transfers that are flows; other islands' rows are left alone.
  Island(const Scene& scene, std::int32_t island, TransferEnds& ends,
         Recording* recording = nullptr);
  Island(const Island&) = delete;
  Island& operator=(const Island&) = delete;

  // Goes on until nothing can without a crossing that has not ended.
  void run(const Crossings& crossings);
  bool finished() const;

  // A gang that reached a crossing.
  struct Arrival {
    std::int32_t stage;
    std::uint8_t stream;
    const SharedOp* op;
  };
  // Those since the last call.
  std::vector<Arrival> take_arrivals() { return std::exchange(arrivals_, {}); }
  // Flows that are ready to leave, since the last call.
  std::vector<Departure> take_departures() { return std::exchange(departures_, {}); }
  // One of them has ended. True if run() can go on from there: no other lane's is on the way.
  bool land(const Departure& departure, std::int64_t at);
  std::span<const std::int64_t> ready(const Arrival& arrival) const {
    return {gangs_[static_cast<std::size_t>(arrival.stage)].ready + arrival.stream * width_,
            width_};
  }

  std::int32_t index() const { return island_; }
  const std::vector<Gang>& gangs() const { return gangs_; }
  std::size_t lanes() const { return width_; }

 private:
  // A collective inside the island that some gangs have reached.
  struct Meeting {
    std::vector<std::pair<std::int32_t, std::uint8_t>> members;  // stage and stream
    std::vector<std::int64_t> latest;                            // arrival, [lane]
  };

  void open_gang(Gang& gang, std::int64_t* memory);
  std::size_t rows(const CompiledProgram& program) const;
  std::size_t expected(Group group) const;

  void run_queue();
  template <int W>
  void walk_queue();
  template <int W>
  void walk(Gang& gang);
  template <int W>
  void execute(Gang& gang, std::uint32_t at);

  // What a step does to its gang; on return it has ended, unless it was posted.
  void run_kernel(Gang& gang, std::uint32_t at);
  void run_on_shared_cores(Gang& gang, std::uint32_t at);
  void stretch_by_windows(const Gang& gang, std::vector<std::int64_t>& ends) const;
  void post(Gang& gang, std::uint32_t at);
  // A stream of a gang; `gang` null: none.
  struct Side {
    Gang* gang = nullptr;
    std::uint8_t stream = 0;
    bool operator==(const Side&) const = default;
  };
  // Both sides of transfer `at` of the sending gang are there. The side that is being posted looks
  // itself whether it may land.
  void transfer(Gang& from, std::uint32_t at, const Side& posting);
  void end_transfer(Gang& from, std::uint32_t at, const Side& posting);
  static Side sender(Gang& from, const TransferEnd& side);
  Side receiver(const TransferEnd& side);
  void meet(Gang& gang, std::uint8_t stream, const SharedOp& op);
  void meet_on_the_wire(Gang& gang, std::uint8_t stream, const SharedOp& op);
  void land_together(Gang& gang, std::uint8_t stream, std::int64_t at);
  void cross(Gang& gang, std::uint8_t stream, const SharedOp& op);
  // Ends the step that is posted on `stream`.
  void land(Gang& gang, std::uint8_t stream);

  std::int64_t start_of(const Gang& gang, const Step& step, std::size_t lane) const;
  std::int64_t* row(std::int64_t* table, std::size_t at) const { return table + at * width_; }
  void record_start(const Gang& gang, std::uint32_t at);
  void record_end(const Gang& gang, std::uint32_t at);

  const Scene& scene_;
  const Crossings* crossings_ = nullptr;
  std::int32_t island_;
  std::size_t width_;
  Recording* recording_;
  std::vector<std::int64_t> memory_;
  std::vector<Window> windows_;
  std::vector<Gang> gangs_;                           // by stage
  std::vector<const RankDisturbance*> disturbances_;  // [stage][lane]; empty if there are none
  std::vector<const std::int64_t*>
      shared_;                         // [stage][lane]: times of steps on shared cores; or empty
  std::vector<std::uint16_t> routes_;  // [from][to][lane]
  std::array<std::vector<Meeting>, kGroups> meetings_;
  Meeting alone_;                    // scratch for collectives of one gang
  std::vector<std::int32_t> queue_;  // stages whose gang can go on
  std::vector<Arrival> arrivals_, waiting_;
  TransferEnds& transfer_ends_;
  std::vector<Departure> departures_;
  std::map<std::pair<std::int32_t, std::uint32_t>, std::size_t> on_the_way_;  // lanes of transfers
  std::vector<std::int64_t> starts_, ends_, undisturbed_;  // scratch of one kernel, [lane]
};

}  // namespace trainyard
