#include "tools/trainyard/progress.h"

#include <fmt/core.h>
#include <unistd.h>

namespace trainyard {

Progress::Progress(std::string what, std::size_t total)
    : what_(std::move(what)),
      total_(total),
      start_(std::chrono::steady_clock::now()),
      terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::show(std::size_t done) {
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
  if (!terminal_ || spent.count() < 1) return;
  shown_ = true;
  fmt::print(stderr, "\r\033[K{} {} of {}, {:.0f} s", what_, done, total_, spent.count());
  std::fflush(stderr);
}

}  // namespace trainyard
