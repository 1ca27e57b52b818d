#pragma once
#include <cstdint>
#include <string_view>

namespace trainyard {

// Counter-based random numbers: a draw depends on its key alone, never on earlier draws.
std::uint64_t random_stream(std::uint64_t seed, std::string_view name);

// Uniform in [0, 1), for the pair (`major`, `minor`) of a stream.
double random_uniform(std::uint64_t stream, std::uint64_t major, std::uint64_t minor);

// |N(0, 1)| from a uniform number, by inversion. Relative error below 2e-9 (P. J. Acklam, "An
// algorithm for computing the inverse normal cumulative distribution function", 2003).
double half_normal(double uniform);

}  // namespace trainyard
