#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace trainyard {

// The flows over a link, in any order. Most links carry one or two: these lie in the link itself,
// since looking elsewhere costs more than all that is done with them.
class MemberList {
 public:
  struct Member {
    std::int32_t flow, hop;
  };

  MemberList() = default;
  MemberList(MemberList&& other) noexcept { swap(other); }
  MemberList& operator=(MemberList&& other) noexcept {
    swap(other);
    return *this;
  }
  MemberList(const MemberList&) = delete;
  MemberList& operator=(const MemberList&) = delete;
  ~MemberList() {
    if (far()) delete[] place_.far;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Member* begin() { return far() ? place_.far : place_.near; }
  Member* end() { return begin() + size_; }
  const Member* begin() const { return far() ? place_.far : place_.near; }
  const Member* end() const { return begin() + size_; }
  Member& operator[](std::size_t at) { return begin()[at]; }
  Member& back() { return end()[-1]; }

  void push_back(const Member& member) {
    if (size_ == room_) grow();
    begin()[size_++] = member;
  }
  void pop_back() { --size_; }

 private:
  static constexpr std::uint32_t kNear = 2;

  bool far() const { return room_ > kNear; }
  void grow() {
    Member* const more = new Member[std::size_t{2} * room_];
    std::copy_n(begin(), size_, more);
    if (far()) delete[] place_.far;
    place_.far = more;
    room_ *= 2;
  }
  void swap(MemberList& other) {
    std::swap(size_, other.size_);
    std::swap(room_, other.room_);
    std::swap(place_, other.place_);
  }

  std::uint32_t size_ = 0, room_ = kNear;
  union {
    Member near[kNear] = {};
    Member* far;
  } place_;
};

}  // namespace trainyard
