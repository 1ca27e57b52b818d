#include "backends/common/batch_ring.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "core/error.h"

namespace trainyard {
namespace {

constexpr std::uint64_t kMagic = 0x676e697279617274;  // "trayring"
constexpr std::int32_t kMaxReaders = 1024;
// How often a waiting reader looks whether the writer still lives.
constexpr std::chrono::milliseconds kLifeCheck{100};

enum RingEnd : std::uint32_t { kOpen, kClosed, kFailed };

[[noreturn]] void refuse(const std::string& what) {
  throw std::runtime_error(fmt::format("shared batches: {}: {}", what, std::strerror(errno)));
}

// std::atomic's own wait is private to a process.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  const auto nanoseconds = std::chrono::nanoseconds(kLifeCheck).count();
  const timespec slice{0, static_cast<long>(nanoseconds)};
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, seen, &slice, nullptr,
            0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  word.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT32_MAX, nullptr,
            nullptr, 0);
}

std::size_t slot_bytes(const RingShape& shape) {
  return (static_cast<std::size_t>(shape.values) * 4 + 63) / 64 * 64;
}

}  // namespace

// At the start of the shared memory; the slots follow. Counters of batches, not places in the ring.
struct BatchRing::Control {
  std::uint64_t magic;
  RingShape shape;
  pid_t writer;
  std::atomic<std::uint32_t> ending;
  std::atomic<std::uint32_t> published_event, released_event;  // futexes
  alignas(64) std::atomic<std::int64_t> published;
  alignas(64) std::atomic<std::int64_t> released[kMaxReaders];
  char reason[1024];
};

BatchRing::BatchRing(int fd, std::string address) : fd_(fd), address_(std::move(address)) {}

void BatchRing::map(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) refuse("cannot be mapped");
  control_ = static_cast<Control*>(memory);
  bytes_ = bytes;
}

BatchRing BatchRing::create(const RingShape& shape) {
  check(shape.slots > 0 && shape.readers > 0 && shape.readers <= kMaxReaders && shape.values > 0,
        "a ring of {} slots for {} readers", shape.slots, shape.readers);
  const int fd = ::memfd_create("trainyard batches", MFD_CLOEXEC);
  if (fd < 0) refuse("cannot be made");
  BatchRing ring(fd, fmt::format("/proc/{}/fd/{}", ::getpid(), fd));
  const std::size_t bytes = sizeof(Control) + shape.slots * slot_bytes(shape);
  // Reserved at once: a full memory shows here and not as SIGBUS later.
  if (const int error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes)); error != 0) {
    errno = error;
    refuse(fmt::format("{} bytes cannot be had", bytes));
  }
  ring.map(bytes);
  new (ring.control_) Control{};
  ring.control_->shape = shape;
  ring.control_->writer = ::getpid();
  ring.control_->magic = kMagic;
  return ring;
}

BatchRing BatchRing::attach(const std::string& address) {
  const int fd = ::open(address.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0)
    refuse(fmt::format("{} (the loading process of this node) cannot be opened", address));
  BatchRing ring(fd, address);
  struct stat status {};
  if (::fstat(fd, &status) != 0) refuse("cannot be examined");
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes >= sizeof(Control)) ring.map(bytes);
  if (ring.control_ == nullptr || ring.control_->magic != kMagic)
    throw std::runtime_error(fmt::format("{}: holds no shared batches", address));
  return ring;
}

BatchRing::BatchRing(BatchRing&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      address_(std::move(other.address_)),
      control_(std::exchange(other.control_, nullptr)),
      bytes_(other.bytes_) {}

BatchRing::~BatchRing() {
  if (control_ != nullptr) ::munmap(control_, bytes_);
  if (fd_ >= 0) ::close(fd_);
}

const RingShape& BatchRing::shape() const { return control_->shape; }

std::span<std::int32_t> BatchRing::slot(std::int64_t step) const {
  const RingShape& s = control_->shape;
  char* first = reinterpret_cast<char*>(control_ + 1) + step % s.slots * slot_bytes(s);
  return {reinterpret_cast<std::int32_t*>(first), static_cast<std::size_t>(s.values)};
}

std::span<std::int32_t> BatchRing::wait_free(std::int64_t step) {
  Control& c = *control_;
  while (true) {
    const std::uint32_t seen = c.released_event.load();
    if (c.ending.load() != kOpen) return {};
    const bool free = std::all_of(c.released, c.released + c.shape.readers, [&](const auto& count) {
      return count.load(std::memory_order_acquire) > step - c.shape.slots;
    });
    if (free) return slot(step);
    futex_wait(c.released_event, seen);
  }
}

void BatchRing::publish(std::int64_t step) {
  control_->published.store(step + 1, std::memory_order_release);
  futex_wake(control_->published_event);
}

void BatchRing::fail(const std::string& reason) {
  Control& c = *control_;
  std::strncpy(c.reason, reason.c_str(), sizeof(c.reason) - 1);
  c.ending.store(kFailed);
  futex_wake(c.published_event);
}

void BatchRing::close() {
  std::uint32_t open = kOpen;
  control_->ending.compare_exchange_strong(open, kClosed);
  futex_wake(control_->published_event);
  futex_wake(control_->released_event);
}

std::span<const std::int32_t> BatchRing::wait_filled(std::int64_t step,
                                                     std::chrono::milliseconds timeout) {
  Control& c = *control_;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const auto published = [&] { return c.published.load(std::memory_order_acquire) > step; };
  while (true) {
    const std::uint32_t seen = c.published_event.load();
    if (published()) return slot(step);
    const std::uint32_t ending = c.ending.load();
    if (ending == kFailed) throw ConfigError(c.reason);
    const bool gone = ::kill(c.writer, 0) != 0 && errno == ESRCH;
    if (published()) return slot(step);  // just before the writer ended
    if (ending == kClosed || gone)
      throw std::runtime_error(
          fmt::format("the process that loads this node's data ({}) has ended", c.writer));
    if (std::chrono::steady_clock::now() >= deadline)
      throw std::runtime_error(
          fmt::format("the process that loads this node's data ({}) has not delivered batch {} in "
                      "{} ms",
                      c.writer, step, timeout.count()));
    futex_wait(c.published_event, seen);
  }
}

void BatchRing::release(std::int32_t reader, std::int64_t step) {
  check(reader >= 0 && reader < control_->shape.readers, "reader {} of {}", reader,
        control_->shape.readers);
  control_->released[reader].store(step + 1, std::memory_order_release);
  futex_wake(control_->released_event);
}

}  // namespace trainyard
