#include "backends/common/launch/output.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace trainyard {

std::vector<std::string> LineCutter::feed(std::string_view bytes) {
  constexpr std::size_t kLongest = 64 << 10;
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::size_t room = kLongest - begun_.size();
    const bool whole = end <= room;
    const std::size_t part = whole ? end : std::min(room, bytes.size());
    begun_ += bytes.substr(0, part);
    bytes.remove_prefix(part + (whole ? 1 : 0));
    if (whole || (begun_.size() == kLongest && !bytes.empty()))
      lines.push_back(std::exchange(begun_, {}));
  }
  return lines;
}

std::vector<std::string> LineCutter::rest() {
  if (begun_.empty()) return {};
  return {std::exchange(begun_, {})};
}

void OutputQueue::add(std::string_view text) {
  if (!given_up_) waiting_ += text;
}

void OutputQueue::write_some() {
  // pipe(7): poll() reports a pipe as writable when a write of PIPE_BUF bytes does not block.
  std::string_view next = std::string_view(waiting_).substr(begin_, PIPE_BUF);
  const std::size_t line_end = next.rfind('\n');
  if (line_end != std::string_view::npos) next = next.substr(0, line_end + 1);
  const ssize_t written = write(fd_, next.data(), next.size());
  if (written < 0 && errno != EINTR && errno != EAGAIN) give_up();
  if (written < 0) return;
  begin_ += static_cast<std::size_t>(written);
  if (begin_ == waiting_.size() || begin_ > kFull) {
    waiting_.erase(0, begin_);
    begin_ = 0;
  }
}

void OutputQueue::give_up() {
  given_up_ = true;
  waiting_.clear();
  begin_ = 0;
}

bool RepeatedLines::is_news(int rank, std::string_view line) {
  if (lines_[rank]++ >= kLines) return true;
  const auto [said, first] = first_said_by_.emplace(line, rank);
  if (first || said->second == rank) return true;
  ++repeated_;
  return false;
}

}  // namespace trainyard
