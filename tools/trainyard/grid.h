#pragma once
#include <string>
#include <vector>

namespace trainyard {

// One `--over KEY=VALUES`.
struct GridAxis {
  std::string key;
  std::vector<std::string> values;
};

// Reads "parallel.tensor=1,2,4..6": values separated by commas, a..b for every integer between.
// Throws ConfigError for a key the schema does not have or values it cannot read.
GridAxis parse_axis(const std::string& text);

// The points of a grid, the last axis fastest.
class Grid {
 public:
  // Throws ConfigError for more than a million points.
  explicit Grid(std::vector<GridAxis> axes);

  std::size_t size() const { return size_; }
  const std::vector<GridAxis>& axes() const { return axes_; }
  // The value of each axis at a point.
  std::vector<std::string> at(std::size_t point) const;

 private:
  std::vector<GridAxis> axes_;
  std::size_t size_ = 1;
};

}  // namespace trainyard
