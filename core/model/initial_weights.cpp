#include "core/model/initial_weights.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/random.h"

namespace trainyard {
namespace {

constexpr double kDeviation = 0.02;

// Elements `first` … of a tensor's normal numbers, times the deviation.
void fill_normal(PhiloxKey key, std::int64_t first, double deviation, std::span<float> out) {
  const auto put = [&](std::size_t i, double value) {
    out[i] = static_cast<float>(deviation * value);
  };
  std::size_t i = 0;
  if (first % 2 != 0 && !out.empty()) put(i++, random_normals(key, first / 2)[1]);
  for (; i < out.size(); i += 2) {
    const auto pair = random_normals(key, (first + static_cast<std::int64_t>(i)) / 2);
    put(i, pair[0]);
    if (i + 1 < out.size()) put(i + 1, pair[1]);
  }
}

}  // namespace

InitialWeights::InitialWeights(const Model& model, std::int64_t sequence, std::uint64_t seed)
    : seed_(seed),
      residual_deviation_(kDeviation / std::sqrt(2.0 * static_cast<double>(model.layers))) {
  for (const LogicalTensor& t : logical_tensors(model, sequence)) starts_[t.name] = t.start;
}

void InitialWeights::fill(const Rectangle& r, std::span<float> flat) const {
  const auto found = starts_.find(r.tensor);
  check(found != starts_.end(), "no tensor {} in the model", r.tensor);
  const Start start = found->second;
  const PhiloxKey key = random_key(seed_, r.tensor);
  for (std::int64_t i = 0; i < r.rows; ++i) {
    const std::int64_t row = r.first_row + i;
    const std::span<float> out = flat.subspan(r.offset + i * r.row_stride, r.columns);
    if (start == Start::zero || start == Start::norm)
      std::fill(out.begin(), out.end(), start == Start::norm && row == 0 ? 1.0f : 0.0f);
    else
      fill_normal(key, row * r.shape[1] + r.first_column,
                  start == Start::residual ? residual_deviation_ : kDeviation, out);
  }
}

}  // namespace trainyard
