#include "backends/common/file_writer.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace trainyard {
namespace {

constexpr std::size_t kBlock = std::size_t{4} << 20;

}  // namespace

struct FileWriter::Hash {
  XXH64_state_t state;
};

FileWriter::FileWriter(std::filesystem::path path, Durability durability)
    : path_(std::move(path)), part_(path_), durability_(durability) {
  part_ += ".part";
  fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("cannot be written");
  block_.reserve(kBlock);
  hash_ = std::make_unique<Hash>();
  XXH64_reset(&hash_->state, 0);
}

FileWriter::~FileWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(part_.c_str());
}

void FileWriter::fail(const char* what) const {
  throw std::runtime_error(fmt::format("{}: {}: {}", path_.string(), what, std::strerror(errno)));
}

void FileWriter::put(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("writing failed");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void FileWriter::flush() {
  put(block_);
  block_.clear();
}

void FileWriter::write(std::span<const std::byte> bytes) {
  XXH64_update(&hash_->state, bytes.data(), bytes.size());
  size_ += static_cast<std::int64_t>(bytes.size());
  if (block_.size() + bytes.size() > kBlock) flush();
  if (bytes.size() >= kBlock)
    put(bytes);
  else
    block_.insert(block_.end(), bytes.begin(), bytes.end());
}

void FileWriter::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void FileWriter::rewrite(std::int64_t offset, std::span<const std::byte> bytes) {
  flush();
  const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
  if (written != static_cast<ssize_t>(bytes.size())) fail("writing failed");
}

void FileWriter::close() {
  flush();
  if (durability_ == Durability::synced && ::fsync(fd_) != 0) fail("cannot be made durable");
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0 || ::rename(part_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    ::unlink(part_.c_str());
    errno = reason;
    fail("writing failed");
  }
}

std::uint64_t FileWriter::hash() const { return XXH64_digest(&hash_->state); }

std::uint64_t hash_bytes(std::span<const std::byte> bytes) {
  return XXH64(bytes.data(), bytes.size(), 0);
}

void sync_directory(const std::filesystem::path& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = fd >= 0 && ::fsync(fd) == 0;
  const int reason = errno;
  if (fd >= 0) ::close(fd);
  if (!synced)
    throw std::runtime_error(fmt::format("{}: the directory cannot be made durable: {}",
                                         directory.string(), std::strerror(reason)));
}

}  // namespace trainyard
