#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace trainyard {

// Bytes from one NIC (or NVLink port) to another. `hash` picks the ECMP path.
struct Flow {
  RankId source, target;
  Bytes bytes;
  std::uint32_t hash = 0;
  std::int32_t concurrent = 1;  // flows of this pattern that leave the node together
};

struct FlowEnd {
  FlowId flow;
  Time at;
};

// What a run did to a network, as fractions of what cards and links can.
struct NetworkUse {
  double slowest_flow = 1;   // mean rate of the slowest flow between nodes
  double busiest_link = 0;   // bytes of the link between cards that carried most
  std::string slowest_name;  // link that held the slowest flow back last
  std::string busiest_name;
  // Waits for senders to find that packets were lost.
  std::int64_t stalls = 0;
  Time longest_stall;
};

// A sender has given up; NCCL ends the job.
struct NetworkFailure {
  Time at;
  std::string message;  // names both ends and what is between them
};

// Moves bytes between ranks. The simulator owns the clock and only asks the model to go forward.
class NetworkModel {
 public:
  virtual ~NetworkModel() = default;

  // Time `flow` takes if nothing can change it: models without contention answer, and the
  // simulator then needs neither start() nor advance() for it.
  virtual std::optional<Time> closed_form(const Flow& flow) const = 0;

  virtual FlowId start(const Flow& flow, Time now) = 0;
  // Flows of equal size of which none can get ahead of the others, such as the edges of a ring:
  // they end together, at the pace of the slowest.
  virtual FlowId start_in_step(std::span<const Flow> flows, Time now) = 0;
  virtual void cancel(FlowId flow, Time now) = 0;
  // `fraction` of the link's speed from `now` on; 0 is down.
  virtual void set_capacity(LinkId link, double fraction, Time now) = 0;
  // A part of the packets that cross it is lost from `now` on.
  virtual void set_loss(LinkId link, double part, Time now);
  // From `now` on switches know that the link is down (or up again) and choose among the others.
  // Flows that cross it go on over new paths; the others keep theirs (resilient hashing).
  virtual void route_around(LinkId link, bool down, Time now) = 0;
  // The link called, for example, "tor_up:3:5"; throws ConfigError if there is none.
  virtual LinkId link(std::string_view name) const = 0;
  // Goes to the first flow end at or before `limit`, or to `limit`; appends all flows that end
  // then and returns the time reached.
  virtual Time advance(Time limit, std::vector<FlowEnd>& ended) = 0;
  // After it no flow moves any more.
  virtual std::optional<NetworkFailure> failure() const { return std::nullopt; }
  // Since the start, when all took `whole`; none for models without links.
  virtual std::optional<NetworkUse> use(Time) const { return std::nullopt; }
};

}  // namespace trainyard
