#pragma once
#include <compare>
#include <cstdint>
#include <vector>

#include "core/config/job.h"
#include "core/program/program.h"
#include "simulator/costs.h"
#include "simulator/rank_topology.h"

namespace trainyard {

struct CollectiveSpec {
  Op op{};
  Group group{};
  Bytes bytes;
  auto operator<=>(const CollectiveSpec&) const = default;
};

// A message as it leaves a rank.
struct MessageSpec {
  Bytes bytes;
  Bytes beside;  // what others of its send/receive group send meanwhile over the same card or links
  auto operator<=>(const MessageSpec&) const = default;
};

inline constexpr std::uint32_t kFreeCollective = 0;  // takes no time

// The distinct collectives and messages of a job's programs, with what the job's software makes
// of their sizes.
struct CommunicationSpecs {
  CommunicationSpecs(const Job& job, const ProgramSet& programs, const RankTopology& topology);

  std::vector<CollectiveSpec> collectives;  // the first one is kFreeCollective
  std::vector<MessageSpec> messages;
  std::vector<std::vector<std::uint32_t>> of;   // [stage][instruction]; kNone: no communication
  std::vector<std::vector<std::int64_t>> uses;  // [stage][collective]: how often in a step
};

// What each of them takes for each distinct group shape and route: measured times first, then the
// models', both scaled. One look-up a use. A measured step total is shared out by bytes, in full to
// the stage that moves most.
class CommunicationTimes {
 public:
  CommunicationTimes(const Job& job, const CommunicationSpecs& specs, const RankTopology& topology,
                     const Costs& costs, const CostScale& scale);
  std::int64_t collective(std::uint32_t spec, std::uint32_t shape) const {
    return collectives_[spec * shapes_ + shape];
  }
  std::int64_t message(std::uint32_t message, std::uint32_t route) const {
    return messages_[message * routes_ + route];
  }
  // The part of a message's time in which its receivers gather what came in parts.
  std::int64_t gathering(std::uint32_t message) const { return gathering_[message]; }
  // What a rank works before it is ready for them.
  std::int64_t collective_work(std::uint32_t spec, std::uint32_t shape) const {
    return collective_work_[spec * shapes_ + shape];
  }
  std::int64_t message_work(std::uint32_t message) const { return message_work_[message]; }

 private:
  std::size_t shapes_, routes_;
  std::vector<std::int64_t> collectives_, messages_;          // ns
  std::vector<std::int64_t> gathering_;                       // ns
  std::vector<std::int64_t> collective_work_, message_work_;  // ns
};

}  // namespace trainyard
