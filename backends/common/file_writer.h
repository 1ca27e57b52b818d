#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace trainyard {

// What a writer does at its end with a file that is whole.
enum class Durability : std::uint8_t {
  cached,  // left to the system's page cache
  synced,  // on the device before close() returns
};

// Writes a new file in large blocks and keeps a hash of all bytes. The file appears under its name
// only at close(): until then, and for ever if close() is never reached, it is NAME.part. Every
// failure throws std::runtime_error naming the file and the system's reason (disk full, read-only).
class FileWriter {
 public:
  explicit FileWriter(std::filesystem::path path, Durability durability = Durability::cached);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  template <class T>
  void write_values(std::span<const T> values) {
    write(std::as_bytes(values));
  }
  // Replaces bytes near the start of the file, for a header that counts what follows. The hash is
  // of no use afterwards.
  void rewrite(std::int64_t offset, std::span<const std::byte> bytes);
  void close();

  std::int64_t size() const { return size_; }
  std::uint64_t hash() const;  // XXH64, seed 0, of what was written so far

 private:
  void flush();
  void put(std::span<const std::byte> bytes);
  [[noreturn]] void fail(const char* what) const;

  struct Hash;
  std::filesystem::path path_, part_;
  Durability durability_;
  int fd_ = -1;
  std::int64_t size_ = 0;
  std::vector<std::byte> block_;
  std::unique_ptr<Hash> hash_;
};

// XXH64, seed 0 (Collet, xxHash specification 0.1.1).
std::uint64_t hash_bytes(std::span<const std::byte> bytes);

// Makes the directory's entries durable. Throws std::runtime_error.
void sync_directory(const std::filesystem::path& directory);

}  // namespace trainyard
