#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backends/common/rank_state.h"
#include "core/mesh/mesh.h"

namespace trainyard {

// Replaces each value by its sum over all ranks.
using SumOverRanks = std::function<void(std::span<double>)>;

// Ranks that hold the same parameters or optimizer state must hold the same bits: between steps
// nothing is communicated that could mend a difference, which would grow unseen. Compares hashes
// of data replicas, of what all tensor ranks hold, and of the tied table's two copies. All ranks of
// `mesh` call it at the same moment; each is told the ranks whose copies differ, in one sentence;
// empty: none.
std::string replica_differences(const RankState& state, const Mesh& mesh, RankId rank,
                                const SumOverRanks& sum);

}  // namespace trainyard
