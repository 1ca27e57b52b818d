#pragma once
#include <cstddef>
#include <filesystem>
#include <span>

namespace trainyard {

// A regular file's bytes, mapped read-only. Must not be truncated by others while it is mapped.
class MappedFile {
 public:
  MappedFile() = default;
  // Throws ConfigError naming the file and the system's reason.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

// Bytes as another trivial type; `data` may be unaligned.
template <class T>
T load_as(const std::byte* data) {
  T value;
  __builtin_memcpy(&value, data, sizeof(T));
  return value;
}

}  // namespace trainyard
