#pragma once
#include "backends/cuda/kernels/device.cuh"

namespace trainyard::cuda_kernels {

// The micro-batch's rows of the step's tokens. A token that is no target is stored as its
// complement ~id, which is negative; as an input it is id all the same.
struct TokenIds {
  View<const std::int32_t> ids;
  OwnPlaces places;
  std::int64_t first_row;

  __device__ std::int64_t input(std::int64_t token) const {
    const std::int32_t id = at(token, 0);
    return id < 0 ? ~id : id;
  }
  // Negative: the position has no target.
  __device__ std::int64_t target(std::int64_t token) const { return at(token, 1); }
  __device__ std::int32_t at(std::int64_t token, std::int64_t ahead) const {
    return ids.at(first_row + token / places.own, places.at(token % places.own) + ahead);
  }
};

inline TokenIds token_ids(const CudaLaunch& launch, std::size_t index) {
  const TokenIds t{operand<const std::int32_t>(launch, index),
                   own_places(launch.context, launch.context.sequence),
                   launch.context.first_ids_row};
  expect(launch, t.places.own > 0 && t.ids.columns == launch.context.sequence + 1,
         "the tokens' columns are not the sequence and one more");
  return t;
}

}  // namespace trainyard::cuda_kernels
