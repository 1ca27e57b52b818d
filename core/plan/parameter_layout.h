#pragma once
#include <string>
#include <vector>

#include "core/config/job.h"
#include "core/model/logical_tensors.h"

namespace trainyard {

// A rectangle of a bucket, and whether all tensor ranks hold it.
struct HeldRectangle : Rectangle {
  bool replicated = false;
};

// A tensor as the programs hold it, whole in the bucket's flat buffer.
struct HeldTensor {
  std::string name;
  std::int64_t offset = 0, elements = 0;
  bool replicated = false;  // the same on all tensor ranks
};

// What one of a stage's flat parameter buffers holds. Elements that no rectangle covers are
// padding: of the vocabulary, or to a multiple of the data ranks.
struct BucketLayout {
  std::string name;
  std::int64_t elements = 0;        // of the flat buffer, padding included
  std::int64_t stepped = 0;         // of a data rank's share under ZeRO, else all of them
  bool tied = false;                // the table that first and last stage both hold
  std::vector<HeldTensor> tensors;  // in the planner's order, those without elements too
  std::vector<HeldRectangle> rectangles;
};

// The buckets of a stage's programs, in the planner's order, as the `tensor_rank`-th tensor rank
// holds them.
std::vector<BucketLayout> bucket_layouts(const Job& job, std::int32_t stage,
                                         std::int32_t tensor_rank);

}  // namespace trainyard
