#pragma once
#include <cstdint>

#include "backends/cpu/kernels/launch.h"

namespace trainyard {

// The micro-batch's rows of the step's tokens. A token that is no target (a masked one, padding)
// is stored as its complement ~id, which is negative; as an input it is id all the same.
class Ids {
 public:
  Ids(const Launch& launch, std::size_t index)
      : tokens_(launch.context.context_tokens()),
        context_rank_(launch.context.context_rank),
        first_row_(launch.context.first_ids_row),
        ids_(operand<const std::int32_t>(launch, index)) {
    check(tokens_.sequence > 0 && ids_.columns == tokens_.sequence + 1,
          "ids of {} columns for sequences of {}", ids_.columns, tokens_.sequence);
  }
  std::int64_t input(std::int64_t token) const {
    const std::int32_t id = at(token, 0);
    return id < 0 ? ~id : id;
  }
  // Negative: the position has no target.
  std::int64_t target(std::int64_t token) const { return at(token, 1); }

 private:
  std::int32_t at(std::int64_t token, std::int64_t ahead) const {
    return ids_.at(first_row_ + token / tokens_.own(),
                   tokens_.place(context_rank_, token % tokens_.own()) + ahead);
  }
  ContextTokens tokens_;
  std::int64_t context_rank_, first_row_;
  View<const std::int32_t> ids_;
};

}  // namespace trainyard
