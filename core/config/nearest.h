#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

// Number of insertions, deletions, replacements and swaps of neighbours that turn a into b.
int edit_distance(std::string_view a, std::string_view b);

// The candidate a mistyped `word` most likely means; empty if none is near (more than a third of
// the letters differ).
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// "; did you mean X?" or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace trainyard
