#include "backends/common/mapped_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace trainyard {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const char* what) {
  throw ConfigError(fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
}

// Closes when it leaves its scope; a mapping outlives its descriptor.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  const Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) refuse(path_, "cannot be opened");
  struct stat status {};
  if (::fstat(file.fd, &status) != 0) refuse(path_, "cannot be examined");
  if (!S_ISREG(status.st_mode))
    throw ConfigError(fmt::format("{}: is not a regular file", path_.string()));
  if (status.st_size == 0) return;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED) refuse(path_, "cannot be mapped");
  bytes_ = {static_cast<const std::byte*>(data), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace trainyard
