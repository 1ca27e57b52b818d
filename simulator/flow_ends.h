#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "simulator/scene.h"

namespace trainyard {

// When each lane's part of each transfer that is a flow ended, and each tensor collective that is
// flows, once it is known. An island reads and writes its own rows only.
class TransferEnds {
 public:
  static constexpr std::int64_t kUnknown = INT64_MIN;

  explicit TransferEnds(const Scene& scene) : lanes_(static_cast<std::size_t>(scene.layout.lanes)) {
    if (!scene.flows.any()) return;
    for (const CompiledProgram& program : scene.programs) {
      first_.push_back(island_size_);
      island_size_ += program.transfers.size() * lanes_;
      first_collective_.push_back(island_size_);
      island_size_ += program.collectives[static_cast<std::size_t>(Group::tensor)].size();
    }
    ends_.assign(island_size_ * static_cast<std::size_t>(scene.layout.islands()), kUnknown);
  }

  // [lane]; `transfer` is the sending side's, in its stage's program.
  std::span<std::int64_t> of(std::int32_t island, std::int32_t stage, std::uint32_t transfer) {
    return {ends_.data() + place(island, stage, transfer), lanes_};
  }
  std::span<const std::int64_t> of(std::int32_t island, std::int32_t stage,
                                   std::uint32_t transfer) const {
    return {ends_.data() + place(island, stage, transfer), lanes_};
  }
  // Of all lanes; `sequence`: the how manieth of its stage.
  std::int64_t& of_collective(std::int32_t island, std::int32_t stage, std::uint32_t sequence) {
    return ends_[static_cast<std::size_t>(island) * island_size_ +
                 first_collective_[static_cast<std::size_t>(stage)] + sequence];
  }

 private:
  std::size_t place(std::int32_t island, std::int32_t stage, std::uint32_t transfer) const {
    return static_cast<std::size_t>(island) * island_size_ +
           first_[static_cast<std::size_t>(stage)] + transfer * lanes_;
  }

  std::size_t lanes_, island_size_ = 0;
  std::vector<std::size_t> first_, first_collective_;  // of each stage
  std::vector<std::int64_t> ends_;
};

// One lane's part of a transfer that is ready to leave, or a tensor collective of all lanes.
struct Departure {
  std::int64_t at = 0;  // ns
  std::int32_t island = 0, stage = 0, lane = 0;
  std::uint32_t transfer = 0;
  const SharedOp* collective = nullptr;  // null: a transfer
  std::uint8_t stream = 0;               // of the collective
};

}  // namespace trainyard
