#pragma once
#include <string>
#include <vector>

#include "core/types.h"
#include "tools/trainyard/grid.h"
#include "tools/trainyard/inputs.h"
#include "tools/trainyard/output.h"

namespace trainyard {

// One point of the grid: simulated, or infeasible for a reason.
struct Layout {
  std::vector<std::string> values;  // by axis
  std::string reason;               // empty: feasible
  bool broken = false;              // the reason is a fault of ours, not of the layout
  std::int32_t gpus = 0;
  Time iteration;
  double tokens_per_s = 0, mfu = 0, training_days = 0;
  Bytes peak_memory;
};

// Simulates every point on `inputs.threads` threads (0: all cores), in grid order.
std::vector<Layout> run_grid(const Inputs& inputs, const Grid& grid, bool allow_oom);

// What layouts are ranked by: mfu, tokens_per_s, iteration_time_s, training_days, peak_memory.
std::vector<std::string> ranking_names();

// Feasible ones first, best first by `ranking`; equals stay in grid order.
void rank_layouts(std::vector<Layout>& layouts, const std::string& ranking);

Json sweep_json(const Grid& grid, const std::vector<Layout>& layouts);
std::string sweep_csv(const Grid& grid, const std::vector<Layout>& layouts);
// The `top` best as a table; with `infeasible` also every other with its reason.
std::string sweep_text(const Grid& grid, const std::vector<Layout>& layouts, std::size_t top,
                       bool infeasible);

}  // namespace trainyard
