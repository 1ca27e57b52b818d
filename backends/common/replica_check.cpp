#include "backends/common/replica_check.h"

#include <fmt/format.h>

#include <array>

namespace trainyard {
namespace {

struct Replicas {
  Group group;
  const char* what;
};
constexpr std::array kReplicas{
    Replicas{Group::data, "weights and optimizer state, as data replicas do"},
    Replicas{Group::tensor, "weights that are not split over the tensor axis"},
    Replicas{Group::embedding, "tied embedding table"},
};

// A hash that sums over any mesh without rounding: 32 of 53 bits leave room for 2^21 ranks.
double summable(std::uint64_t hash) { return static_cast<double>(hash >> 32); }

}  // namespace

std::string replica_differences(const RankState& state, const Mesh& mesh, RankId rank,
                                const SumOverRanks& sum) {
  // A place for each group of each kind: that of its first member.
  const auto ranks = static_cast<std::size_t>(mesh.size());
  std::vector<double> sums(kReplicas.size() * ranks), differing(sums.size());
  struct Own {
    std::size_t place;
    double hash, members;
  };
  std::vector<Own> held;
  for (std::size_t kind = 0; kind < kReplicas.size(); ++kind) {
    const std::vector<RankId> members = mesh.members(kReplicas[kind].group, rank);
    const std::optional<std::uint64_t> hash = state.replica_hash(kReplicas[kind].group);
    if (members.size() < 2 || !hash) continue;
    const std::size_t place = kind * ranks + static_cast<std::size_t>(index(members.front()));
    held.push_back({place, summable(*hash), static_cast<double>(members.size())});
    sums[place] = held.back().hash;
  }
  sum(sums);
  // Equal members each see their own hash, times the members, as the sum; of unequal ones some do
  // not.
  for (const Own& own : held)
    if (sums[own.place] != own.hash * own.members) differing[own.place] = 1;
  sum(differing);
  for (std::size_t place = 0; place < differing.size(); ++place) {
    if (differing[place] == 0) continue;
    const Replicas& kind = kReplicas[place / ranks];
    std::vector<std::int64_t> members;
    for (const RankId member : mesh.members(kind.group, RankId(static_cast<int>(place % ranks))))
      members.push_back(index(member));
    return fmt::format("ranks {} no longer hold the same bits of the {}", fmt::join(members, ", "),
                       kind.what);
  }
  return {};
}

}  // namespace trainyard
