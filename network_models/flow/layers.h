#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

namespace trainyard {

// Bytes that wait at a link, in the order in which they came: layers, each a mixture of flows.
class Layers {
 public:
  // `serial` tells a flow from those that had its number before.
  struct Part {
    std::int32_t flow;
    std::uint32_t serial;
    double bytes;
  };

  double bytes() const { return bytes_; }
  // The first layer: what leaves next. Parts in order of flows.
  std::span<const Part> front() const {
    return layers_.empty() ? std::span<const Part>{} : layers_.front().parts;
  }
  double front_bytes() const { return layers_.empty() ? 0 : layers_.front().bytes; }

  // Whether more of these would change nothing in what leaves.
  bool is_all(std::span<const Part> parts, double sum) const {
    return layers_.size() == 1 && alike(layers_.front(), parts, sum);
  }

  // What came together, in order of flows. It is a layer of its own unless the last one has fewer
  // than `grain` bytes or is the same mixture.
  void add(std::span<const Part> parts, double grain) {
    double sum = 0;
    for (const Part& part : parts) sum += part.bytes;
    if (sum <= 0) return;
    bytes_ += sum;
    if (!layers_.empty() && (layers_.back().bytes < grain || alike(layers_.back(), parts, sum)))
      return mix(layers_.back(), parts, sum);
    layers_.push_back({sum, {parts.begin(), parts.end()}});
  }

  // Takes out the first bytes, and tells `visit` of each part of them.
  template <class Visit>
  void take(double bytes, Visit visit) {
    while (bytes > 0 && !layers_.empty()) {
      Layer& first = layers_.front();
      const double share = std::min(1.0, bytes / first.bytes);
      for (Part& part : first.parts) {
        visit(Part{part.flow, part.serial, share * part.bytes});
        part.bytes *= 1 - share;
      }
      bytes -= first.bytes;
      bytes_ -= share * first.bytes;
      first.bytes *= 1 - share;
      if (share == 1) layers_.pop_front();
    }
    if (layers_.empty()) bytes_ = 0;
  }

 private:
  struct Layer {
    double bytes;
    std::vector<Part> parts;
  };

  static bool alike(const Layer& layer, std::span<const Part> parts, double sum) {
    constexpr double kAlike = 0.01;
    return std::ranges::equal(layer.parts, parts, [&](const Part& a, const Part& b) {
      return a.flow == b.flow && a.serial == b.serial &&
             std::abs(a.bytes / layer.bytes - b.bytes / sum) < kAlike;
    });
  }

  static void mix(Layer& layer, std::span<const Part> parts, double sum) {
    std::vector<Part> before = std::exchange(layer.parts, {});
    layer.bytes += sum;
    auto old = before.begin();
    for (const Part& part : parts) {
      while (old != before.end() && old->flow < part.flow) layer.parts.push_back(*old++);
      double both = part.bytes;
      while (old != before.end() && old->flow == part.flow && old->serial != part.serial)
        layer.parts.push_back(*old++);
      if (old != before.end() && old->flow == part.flow) both += old++->bytes;
      layer.parts.push_back({part.flow, part.serial, both});
    }
    layer.parts.insert(layer.parts.end(), old, before.end());
  }

  std::deque<Layer> layers_;
  double bytes_ = 0;
};

}  // namespace trainyard
