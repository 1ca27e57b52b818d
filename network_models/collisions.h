#pragma once
#include <cstdint>

namespace trainyard {

// One ECMP hashing stage: `flows` flows of equal rate, each split over `qps` queue pairs, thrown
// at random on `links` equal links that carry `capacity` of these flows at full rate.
struct EcmpStage {
  std::int64_t flows = 1, links = 1;
  double capacity = 1;
  std::int64_t qps = 1;
  std::int64_t stages = 1;  // independent such throws on the path; the worst one counts
};

// Expected fraction of its full rate that a flow gets: of an average flow, and of the slowest of
// all (which a ring moves at). A split flow is as fast as its slowest part.
struct ExpectedRate {
  double mean = 1, slowest = 1;
};

// Balls in bins in closed form; agrees with Monte-Carlo draws to 3 %.
ExpectedRate expected_rate(const EcmpStage& stage);

}  // namespace trainyard
