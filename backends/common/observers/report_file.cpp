#include "backends/common/observers/report_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "core/error.h"

namespace trainyard {
namespace {

// While it lives, a write to a closed pipe fails with EPIPE and sends this thread no signal.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    const int reason = errno;
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = reason;
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

}  // namespace

ReportFile::ReportFile(std::string path, Start start) : path_(std::move(path)) {
  if (path_ == "-") {
    *this = ReportFile("standard output", STDOUT_FILENO, false);
    return;
  }
  const int how = start == Start::anew ? O_TRUNC : O_APPEND;
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
  if (fd_ < 0)
    throw ConfigError(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
}

ReportFile ReportFile::standard_error() { return {"standard error", STDERR_FILENO, false}; }

ReportFile::~ReportFile() {
  if (owned_ && fd_ >= 0) ::close(fd_);
}

ReportFile::ReportFile(ReportFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), owned_(other.owned_) {}

ReportFile& ReportFile::operator=(ReportFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(owned_, other.owned_);
  return *this;
}

void ReportFile::write(std::string_view bytes) {
  const NoPipeSignal quiet;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      throw std::runtime_error(fmt::format("{}: writing failed: {}", path_, std::strerror(errno)));
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

bool ReportFile::is_terminal() const { return isatty(fd_) == 1; }

}  // namespace trainyard
