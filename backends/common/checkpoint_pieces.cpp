#include "backends/common/checkpoint_pieces.h"

#include <fmt/core.h>

#include <cstdio>

namespace trainyard {

std::string piece_name(const Rectangle& r, const char* part) {
  if (r.rows == r.shape[0] && r.columns == r.shape[1]) return r.tensor + part;
  return fmt::format("{}{}[{}:{},{}:{}]", r.tensor, part, r.first_row, r.first_row + r.rows,
                     r.first_column, r.first_column + r.columns);
}

std::optional<NamedPiece> parse_piece_name(const std::string& name) {
  const std::size_t bracket = name.find('[');
  if (bracket == std::string::npos) return NamedPiece{name, 0, 0};
  long long row = 0, last_row = 0, column = 0, last_column = 0;
  int read = 0;
  const char* text = name.c_str() + bracket;
  const int numbers =
      std::sscanf(text, "[%lld:%lld,%lld:%lld]%n", &row, &last_row, &column, &last_column, &read);
  if (numbers != 4 || text[read] != '\0') return std::nullopt;
  return NamedPiece{name.substr(0, bracket), row, column};
}

}  // namespace trainyard
