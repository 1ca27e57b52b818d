#pragma once
#include <cstddef>
#include <cstring>
#include <span>

namespace trainyard {

// Where the buffers of a rank's programs are: on this processor, or on a device that it copies from
// and to. Places are bytes from the start. Not to be used while a step runs.
class RankMemory {
 public:
  virtual ~RankMemory() = default;
  virtual std::size_t size() const = 0;
  virtual void read(std::size_t from, std::span<std::byte> to) const = 0;
  virtual void write(std::size_t to, std::span<const std::byte> from) = 0;
};

class HostRankMemory final : public RankMemory {
 public:
  explicit HostRankMemory(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::size_t size() const override { return bytes_.size(); }
  void read(std::size_t from, std::span<std::byte> to) const override {
    if (!to.empty()) std::memcpy(to.data(), bytes_.subspan(from, to.size()).data(), to.size());
  }
  void write(std::size_t to, std::span<const std::byte> from) override {
    if (!from.empty())
      std::memcpy(bytes_.subspan(to, from.size()).data(), from.data(), from.size());
  }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace trainyard
