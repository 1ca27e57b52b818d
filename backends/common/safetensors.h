#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/common/mapped_file.h"
#include "core/program/kernel.h"

namespace trainyard {

// A tensor of a safetensors file (huggingface/safetensors, README, "Format"): row-major,
// little-endian. `dtype` is the format's name: F32, BF16, F16, I32, U8 and others.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
  std::int64_t elements() const;
};

inline constexpr std::int64_t kMaxSafetensorsHeader = 100'000'000;  // the reference reader's limit

// Bytes of an element, 0 for a name that the format does not have.
std::int64_t safetensors_element_size(std::string_view dtype);
std::string_view safetensors_dtype(DType dtype);

// A safetensors file, mapped. The constructor throws ConfigError naming the file and what is wrong:
// header too large or no JSON, unknown dtype, sizes that do not fit shapes, tensors that overlap or
// leave gaps, bytes missing or left over.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  // All of the file, for its hash.
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  // By name.
  const std::map<std::string, SafetensorsEntry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Throws ConfigError naming the file when there is no such tensor.
  const SafetensorsEntry& at(const std::string& name) const;

 private:
  MappedFile file_;
  std::map<std::string, SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

// A rectangle of memory that becomes a tensor: `rows` runs of `row_bytes`, `stride_bytes` apart.
struct SafetensorsSource {
  std::string name;
  DType dtype = DType::fp32;
  std::vector<std::int64_t> shape;
  const std::byte* data = nullptr;
  std::int64_t rows = 0, row_bytes = 0, stride_bytes = 0;
};

// A tensor that lies in one piece.
SafetensorsSource contiguous_source(std::string name, DType dtype, std::vector<std::int64_t> shape,
                                    const void* data);

class FileWriter;

// Writes the tensors in the given order; does not close the file.
void write_safetensors(FileWriter& file, std::span<const SafetensorsSource> tensors,
                       const std::map<std::string, std::string>& metadata);

// Elements `first` … of an F32, BF16 or F16 tensor as fp32. Throws ConfigError for other types.
void read_floats(const SafetensorsFile& file, const SafetensorsEntry& entry, std::int64_t first,
                 std::span<float> out);
// All of them.
std::vector<float> to_floats(const SafetensorsFile& file, const SafetensorsEntry& entry);

}  // namespace trainyard
