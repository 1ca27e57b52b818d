#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "core/model/logical_tensors.h"

namespace trainyard {

// The weights a run starts from. An element's value depends on the seed, its tensor's name and its
// place in the whole tensor alone, so every layout starts from the same model.
class InitialWeights {
 public:
  InitialWeights(const Model& model, std::int64_t sequence, std::uint64_t seed);
  // Writes the rectangle's elements to their places in `flat`.
  void fill(const Rectangle& rectangle, std::span<float> flat) const;

 private:
  std::uint64_t seed_;
  double residual_deviation_;
  std::map<std::string, Start, std::less<>> starts_;
};

}  // namespace trainyard
