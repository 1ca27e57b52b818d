#include "backends/common/safetensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "backends/common/file_writer.h"
#include "backends/common/number_formats.h"
#include "core/error.h"

namespace trainyard {
namespace {

using Json = nlohmann::json;

struct NamedSize {
  std::string_view name;
  std::int64_t size;
};
constexpr NamedSize kTypes[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
                                {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
                                {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};

constexpr std::string_view kMetadata = "__metadata__";

// Reads and checks the header of a mapped file.
class HeaderReader {
 public:
  explicit HeaderReader(const MappedFile& file) : file_(file) {}

  // Names the tensor that the rest of the message is about.
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    throw ConfigError(fmt::format("{}: {}", file_.path().string(),
                                  fmt::format(text, std::forward<Args>(args)...)));
  }

  Json header() {
    if (file_.size() < 8)
      refuse("a safetensors file has at least 8 bytes, this has {}", file_.size());
    const auto length = load_as<std::uint64_t>(file_.bytes().data());
    if (length > static_cast<std::uint64_t>(kMaxSafetensorsHeader))
      refuse("offset 0: a header of {} bytes is larger than {}", length, kMaxSafetensorsHeader);
    if (static_cast<std::int64_t>(length) > file_.size() - 8)
      refuse("offset 0: a header of {} bytes, but only {} follow", length, file_.size() - 8);
    data_ = file_.bytes().subspan(8 + length);
    const auto* text = reinterpret_cast<const char*>(file_.bytes().data()) + 8;
    std::vector<std::string> keys;
    const Json::parser_callback_t unique = [&](int depth, Json::parse_event_t event, Json& value) {
      if (event == Json::parse_event_t::key && depth == 1) {
        keys.push_back(value.get<std::string>());
      }
      return true;
    };
    const Json json = Json::parse(text, text + length, unique, false);
    if (!json.is_object()) refuse("offset 8: the header is no JSON object");
    std::sort(keys.begin(), keys.end());
    const auto repeated = std::adjacent_find(keys.begin(), keys.end());
    if (repeated != keys.end()) refuse("tensor \"{}\" is listed twice", *repeated);
    return json;
  }

  SafetensorsEntry entry(const std::string& name, const Json& json) const {
    SafetensorsEntry entry{name, "", {}, {}};
    const bool shaped = json.is_object() && json.contains("dtype") && json["dtype"].is_string() &&
                        is_list(json, "shape") && is_list(json, "data_offsets") &&
                        json["data_offsets"].size() == 2;
    if (!shaped) refuse("tensor \"{}\": expected dtype, shape and two data_offsets", name);
    entry.dtype = json["dtype"].get<std::string>();
    const std::int64_t element = safetensors_element_size(entry.dtype);
    if (element == 0) refuse("tensor \"{}\": unknown dtype \"{}\"", name, entry.dtype);
    entry.shape = json["shape"].get<std::vector<std::int64_t>>();
    const auto begin = json["data_offsets"][0].get<std::uint64_t>();
    const auto end = json["data_offsets"][1].get<std::uint64_t>();
    if (begin > end || end > data_.size())
      refuse("tensor \"{}\": data_offsets {} to {}, but the data has {} bytes", name, begin, end,
             data_.size());
    std::int64_t bytes = element;
    for (const std::int64_t size : entry.shape)
      if (__builtin_mul_overflow(bytes, size, &bytes))
        refuse("tensor \"{}\": its shape has too many elements", name);
    if (static_cast<std::uint64_t>(bytes) != end - begin)
      refuse("tensor \"{}\": shape [{}] of {} needs {} bytes, data_offsets give {}", name,
             fmt_shape(entry.shape), entry.dtype, bytes, end - begin);
    entry.bytes = data_.subspan(begin, end - begin);
    return entry;
  }

  // Every byte of the data belongs to exactly one tensor.
  void check_cover(const std::map<std::string, SafetensorsEntry>& entries) const {
    std::vector<const SafetensorsEntry*> order;
    for (const auto& [name, entry] : entries) order.push_back(&entry);
    std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
      return std::pair(a->bytes.data(), a->bytes.size()) <
             std::pair(b->bytes.data(), b->bytes.size());
    });
    const std::byte* end = data_.data();
    for (const SafetensorsEntry* e : order) {
      if (e->bytes.data() < end) refuse("tensor \"{}\" overlaps another", e->name);
      if (e->bytes.data() > end)
        refuse("{} bytes before tensor \"{}\" belong to none", e->bytes.data() - end, e->name);
      end = e->bytes.data() + e->bytes.size();
    }
    if (end != data_.data() + data_.size())
      refuse("{} bytes at the end belong to no tensor", data_.data() + data_.size() - end);
  }

 private:
  static std::string fmt_shape(const std::vector<std::int64_t>& shape) {
    std::string text;
    for (const std::int64_t size : shape)
      text += fmt::format("{}{}", text.empty() ? "" : ", ", size);
    return text;
  }

  static bool is_list(const Json& json, const char* key) {
    return json.contains(key) && json[key].is_array() &&
           std::all_of(json[key].begin(), json[key].end(),
                       [](const Json& v) { return v.is_number_unsigned(); });
  }

  const MappedFile& file_;
  std::span<const std::byte> data_;
};

}  // namespace

std::int64_t SafetensorsEntry::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::int64_t safetensors_element_size(std::string_view dtype) {
  for (const NamedSize& type : kTypes)
    if (type.name == dtype) return type.size;
  return 0;
}

std::string_view safetensors_dtype(DType dtype) {
  static constexpr std::array<std::string_view, 5> kNames{"F32", "BF16", "F16", "I32", "U8"};
  return kNames[static_cast<std::size_t>(dtype)];
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  HeaderReader reader(file_);
  const Json header = reader.header();
  for (const auto& [name, json] : header.items()) {
    if (name != kMetadata) {
      entries_.emplace(name, reader.entry(name, json));
      continue;
    }
    if (!json.is_object()) reader.refuse("__metadata__ is no JSON object");
    for (const auto& [key, value] : json.items()) {
      if (!value.is_string()) reader.refuse("__metadata__: \"{}\" is no string", key);
      metadata_.emplace(key, value.get<std::string>());
    }
  }
  reader.check_cover(entries_);
}

const SafetensorsEntry& SafetensorsFile::at(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    throw ConfigError(fmt::format("{}: has no tensor \"{}\"", path().string(), name));
  return found->second;
}

SafetensorsSource contiguous_source(std::string name, DType dtype, std::vector<std::int64_t> shape,
                                    const void* data) {
  std::int64_t bytes = size_of(dtype);
  for (const std::int64_t size : shape) bytes *= size;
  return {std::move(name), dtype, std::move(shape), static_cast<const std::byte*>(data), 1,
          bytes,           bytes};
}

void write_safetensors(FileWriter& file, std::span<const SafetensorsSource> tensors,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  std::int64_t offset = 0;
  for (const SafetensorsSource& t : tensors) {
    const std::int64_t end = offset + t.rows * t.row_bytes;
    header[t.name] = {
        {"dtype", safetensors_dtype(t.dtype)}, {"shape", t.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.is_null() ? "{}" : header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data is aligned
  check(static_cast<std::int64_t>(text.size()) <= kMaxSafetensorsHeader, "a header of {} bytes",
        text.size());
  const std::uint64_t length = text.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(text);
  for (const SafetensorsSource& t : tensors)
    for (std::int64_t row = 0; row < t.rows; ++row)
      file.write({t.data + row * t.stride_bytes, static_cast<std::size_t>(t.row_bytes)});
}

void read_floats(const SafetensorsFile& file, const SafetensorsEntry& entry, std::int64_t first,
                 std::span<float> out) {
  check(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= entry.elements(),
        "elements {} + {} of {}", first, out.size(), entry.elements());
  const std::byte* at = entry.bytes.data() + first * safetensors_element_size(entry.dtype);
  if (entry.dtype == "F32") {
    std::memcpy(out.data(), at, out.size_bytes());
  } else if (entry.dtype == "BF16") {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = std::bit_cast<float>(std::uint32_t{load_as<std::uint16_t>(at + 2 * i)} << 16);
  } else if (entry.dtype == "F16") {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = from_fp16(load_as<std::uint16_t>(at + 2 * i));
  } else {
    throw ConfigError(fmt::format("{}: tensor \"{}\" is {}, expected F32, BF16 or F16",
                                  file.path().string(), entry.name, entry.dtype));
  }
}

std::vector<float> to_floats(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  std::vector<float> values(static_cast<std::size_t>(entry.elements()));
  read_floats(file, entry, 0, values);
  return values;
}

}  // namespace trainyard
