#include "backends/common/rank_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/common/file_writer.h"
#include "backends/common/number_formats.h"
#include "core/error.h"

namespace trainyard {
namespace {

std::vector<std::byte> stored(std::span<const float> values, DType dtype) {
  std::vector<std::byte> to(values.size() * static_cast<std::size_t>(size_of(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::fp32) {
      std::memcpy(&to[4 * i], &values[i], 4);
    } else {
      const std::uint16_t bits = dtype == DType::bf16 ? to_bf16(values[i]) : to_fp16(values[i]);
      std::memcpy(&to[2 * i], &bits, 2);
    }
  }
  return to;
}

std::vector<float> read_numbers(std::span<const std::byte> from, DType dtype) {
  std::vector<float> values(from.size() / static_cast<std::size_t>(size_of(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::fp32) {
      std::memcpy(&values[i], &from[4 * i], 4);
    } else {
      std::uint16_t bits = 0;
      std::memcpy(&bits, &from[2 * i], 2);
      values[i] = dtype == DType::bf16 ? from_bf16(bits) : from_fp16(bits);
    }
  }
  return values;
}

}  // namespace

RankState::RankState(const Job& job, const Program& program, const Coord& coord, RankMemory& memory)
    : program_(program),
      replica_(job.mesh().replica(coord)),
      memory_(memory),
      layouts_(bucket_layouts(job, coord[Axis::pipeline], coord[Axis::tensor])),
      to_save_(pieces_to_save(job, coord)) {
  for (const BucketLayout& layout : layouts_) {
    const auto flat = [&](const char* what) {
      return find(fmt::format("{}.{}", layout.name, what));
    };
    buckets_.push_back(
        {flat("params"), flat("param_shard"), flat("master"), flat("moment1"), flat("moment2")});
  }
}

RankState::Flat RankState::find(const std::string& name) const {
  for (const BufferSpec& spec : program_.buffers) {
    const BufferType& type = program_.buffer_types[spec.type];
    if (type.name != name || spec.parent != kNone) continue;
    if (!type.persistent) return {};
    check(spec.offset.value >= 0, "{} has no place in memory", name);
    return {static_cast<std::size_t>(spec.offset.value),
            static_cast<std::size_t>(type.size().value), type.dtype};
  }
  return {};
}

std::vector<std::byte> RankState::contents(const Flat& flat) const {
  std::vector<std::byte> bytes(flat.bytes);
  memory_.read(flat.place, bytes);
  return bytes;
}

ElementRange RankState::stepped(std::size_t bucket) const {
  return stepped_range(layouts_[bucket], replica_);
}

// values_of(bucket, part): all elements of the bucket's flat buffer, padding zero.
template <class Fill>
void RankState::fill(const Fill& values_of) {
  const auto put = [this](const Flat& flat, std::span<const float> values) {
    if (flat.empty()) return;
    const std::vector<std::byte> bytes = stored(values, flat.dtype);
    check(bytes.size() == flat.bytes, "{} values for {} bytes of {}", values.size(), flat.bytes,
          dtype_name(flat.dtype));
    memory_.write(flat.place, bytes);
  };
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const auto [first, count] = stepped(b);
    const auto share = [&](const std::vector<float>& all) {
      return std::span(all).subspan(static_cast<std::size_t>(first),
                                    static_cast<std::size_t>(count));
    };
    const std::vector<float> weights = values_of(layouts_[b], kCheckpointParts[0]);
    put(buckets_[b].params, weights);
    put(buckets_[b].param_shard, share(weights));
    put(buckets_[b].master, share(weights));
    put(buckets_[b].moment1, share(values_of(layouts_[b], kCheckpointParts[1])));
    put(buckets_[b].moment2, share(values_of(layouts_[b], kCheckpointParts[2])));
  }
}

void RankState::start(const InitialWeights& weights) {
  fill([&](const BucketLayout& layout, std::string_view part) {
    std::vector<float> values(static_cast<std::size_t>(layout.elements));
    if (part.empty())
      for (const HeldRectangle& r : layout.rectangles) weights.fill(r, values);
    return values;
  });
}

void RankState::load(const CheckpointReader& reader, bool moments) {
  fill([&](const BucketLayout& layout, std::string_view part) {
    std::vector<float> values(static_cast<std::size_t>(layout.elements));
    if (part.empty() || moments)
      for (const HeldRectangle& r : layout.rectangles) reader.read(r, std::string(part), values);
    return values;
  });
}

std::vector<CheckpointPiece> RankState::save() {
  std::vector<CheckpointPiece> pieces;
  copies_.clear();
  copies_.reserve(kCheckpointParts.size() * to_save_.size());
  for (const BucketPieces& of : to_save_) {
    const auto b = static_cast<std::size_t>(of.bucket);
    const Bucket& bucket = buckets_[b];
    const auto [first, count] = stepped(b);
    Flat weights = !bucket.master.empty()        ? bucket.master
                   : !bucket.param_shard.empty() ? bucket.param_shard
                                                 : bucket.params;
    const std::array<Flat, 3> parts{weights, bucket.moment1, bucket.moment2};
    for (std::size_t p = 0; p < parts.size(); ++p) {
      check(!parts[p].empty(), "bucket {} keeps nothing for part {}", layouts_[b].name, p);
      copies_.push_back(read_numbers(contents(parts[p]), parts[p].dtype));
      check(static_cast<std::int64_t>(copies_.back().size()) == count,
            "{} elements of bucket {} are stepped, {} are kept", count, layouts_[b].name,
            copies_.back().size());
      for (const Rectangle& r : of.rectangles)
        pieces.push_back({r, kCheckpointParts[p], copies_.back()});
    }
  }
  return pieces;
}

// Bytes of the bucket that all members of the group hold.
void RankState::append_common(std::size_t b, Group group, std::vector<std::byte>& to) const {
  const BucketLayout& layout = layouts_[b];
  const Bucket& bucket = buckets_[b];
  if (group == Group::embedding && !layout.tied) return;
  std::vector<HeldRectangle> common = layout.rectangles;
  if (group == Group::tensor) std::erase_if(common, [](const auto& r) { return !r.replicated; });
  for (const Flat& flat :
       {bucket.params, bucket.param_shard, bucket.master, bucket.moment1, bucket.moment2}) {
    const std::int64_t element = size_of(flat.dtype);
    const auto held = static_cast<std::int64_t>(flat.bytes) / element;
    const bool whole = held == layout.elements;
    if (held == 0 || (group == Group::data && !whole)) continue;
    const std::vector<std::byte> all = contents(flat);
    for (const Rectangle& r : clip(common, whole ? ElementRange{0, held} : stepped(b)))
      for (std::int64_t row = 0; row < r.rows; ++row) {
        const auto bytes =
            std::span(all).subspan((r.offset + row * r.row_stride) * element, r.columns * element);
        to.insert(to.end(), bytes.begin(), bytes.end());
      }
  }
}

std::optional<std::uint64_t> RankState::replica_hash(Group group) const {
  std::vector<std::byte> common;
  for (std::size_t b = 0; b < buckets_.size(); ++b) append_common(b, group, common);
  if (common.empty()) return std::nullopt;
  return hash_bytes(common);
}

std::vector<std::vector<float>> RankState::parameters() const {
  std::vector<std::vector<float>> all;
  for (const Bucket& bucket : buckets_) {
    const Flat& flat = bucket.params.empty() ? bucket.param_shard : bucket.params;
    all.push_back(read_numbers(contents(flat), flat.dtype));
  }
  return all;
}

}  // namespace trainyard
