#pragma once
#include <algorithm>
#include <vector>

#include "tests/core/program/program_builder.h"

namespace trainyard {

// A stage of a 1F1B pipeline written by hand: tensor-parallel transformer-like layers with
// sequence-parallel collectives, activations kept to the backward pass, decoupled transfers.
class PipelineProgram {
 public:
  struct Shape {
    int stages = 4, micro_batches = 8, layers = 2;
    std::int64_t unit = 4096;  // bytes of the residual stream of a rank
  };

  PipelineProgram(const Shape& shape, int stage) : shape_(shape), stage_(stage), b_(stage) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      for (int i = 0; i < 5; ++i) {
        weights_.push_back(b_.buffer("weight", 4 * shape.unit, true));
        gradients_.push_back(b_.buffer("gradient", 8 * shape.unit, true));
      }
    }
    saved_.resize(static_cast<std::size_t>(shape.micro_batches));
    outputs_.resize(saved_.size());
  }

  Program build() {
    const int m = shape_.micro_batches;
    const int ahead = std::min(m, shape_.stages - 1 - stage_);
    for (int k = 0; k < ahead; ++k) forward(k);
    for (int k = ahead; k < m; ++k) {
      forward(k);
      backward(k - ahead);
    }
    for (int k = m - ahead; k < m; ++k) backward(k);
    return b_.program;
  }

 private:
  struct Saved {
    std::uint32_t norm, qkv, context, lse, middle, hidden, active;
  };
  std::uint32_t unit(const char* name, std::int64_t units) {
    return b_.buffer(name, units * shape_.unit);
  }
  std::uint32_t weight(int layer, int i) const {
    return weights_[static_cast<std::size_t>(5 * layer + i)];
  }
  std::uint32_t gradient(int layer, int i) const {
    return gradients_[static_cast<std::size_t>(5 * layer + i)];
  }
  std::uint32_t gather(std::uint32_t shard) {
    const std::uint32_t full = unit("gathered", 8);
    b_.on(Stream::tensor, {r(shard), w(full)});
    return full;
  }
  std::uint32_t scatter(std::uint32_t full) {
    const std::uint32_t shard = unit("scattered", 1);
    b_.on(Stream::tensor, {r(full), w(shard)});
    return shard;
  }
  std::uint32_t compute(const char* name, std::int64_t units, std::vector<std::uint32_t> inputs) {
    const std::uint32_t out = unit(name, units);
    inputs.resize(3, inputs.front());
    b_.compute({r(inputs[0]), r(inputs[1]), r(inputs[2]), w(out)});
    return out;
  }

  void forward(int k) {
    b_.pass(PassKind::forward, k);
    std::uint32_t x = unit("input", 1);
    if (stage_ > 0)
      b_.recv(-1, static_cast<std::uint32_t>(2 * k), x);
    else
      b_.compute({w(x)});
    for (int layer = 0; layer < shape_.layers; ++layer) {
      Saved s{};
      s.norm = compute("norm", 1, {x, weight(layer, 0)});
      s.qkv = compute("qkv", 3, {gather(s.norm), weight(layer, 1)});
      s.context = unit("context", 1);
      s.lse = b_.buffer("lse", 256);
      b_.compute({r(s.qkv), w(s.context), w(s.lse)});
      s.middle =
          compute("middle", 1, {scatter(compute("partial", 8, {s.context, weight(layer, 2)})), x});
      s.hidden = compute("hidden", 4, {gather(compute("norm2", 1, {s.middle})), weight(layer, 3)});
      s.active = compute("active", 4, {s.hidden});
      x = compute("output", 1,
                  {scatter(compute("partial", 8, {s.active, weight(layer, 4)})), s.middle});
      saved_[k].push_back(s);
    }
    outputs_[k] = x;
    if (stage_ + 1 < shape_.stages) b_.send(1, static_cast<std::uint32_t>(2 * k), x);
  }

  void backward(int k) {
    b_.pass(PassKind::backward, k);
    std::uint32_t d = unit("doutput", 1);
    if (stage_ + 1 < shape_.stages)
      b_.recv(1, static_cast<std::uint32_t>(2 * k + 1), d);
    else
      b_.compute({r(outputs_[k]), w(d)});
    for (int layer = shape_.layers - 1; layer >= 0; --layer) {
      const Saved& s = saved_[k][layer];
      const std::uint32_t full = gather(d);
      const std::uint32_t dactive = compute("dactive", 4, {full, weight(layer, 4)});
      b_.compute({r(s.active), r(full), u(gradient(layer, 4))});
      const std::uint32_t dhidden = compute("dhidden", 4, {dactive, s.hidden});
      b_.compute({r(s.middle), r(dhidden), u(gradient(layer, 3))});
      const std::uint32_t dmiddle = compute(
          "dmiddle", 1, {scatter(compute("partial", 8, {dhidden, weight(layer, 3)})), s.middle, d});
      const std::uint32_t full2 = gather(dmiddle);
      const std::uint32_t dcontext = compute("dcontext", 1, {full2, weight(layer, 2)});
      b_.compute({r(s.context), r(full2), u(gradient(layer, 2))});
      const std::uint32_t dqkv = unit("dqkv", 3);
      b_.compute({r(s.qkv), r(s.context), r(s.lse), r(dcontext), w(dqkv)});
      b_.compute({r(s.norm), r(dqkv), u(gradient(layer, 1))});
      d = compute("dinput", 1, {scatter(compute("partial", 8, {dqkv, weight(layer, 1)})), dmiddle});
    }
    if (stage_ > 0) b_.send(-1, static_cast<std::uint32_t>(2 * k + 1), d);
  }

  Shape shape_;
  int stage_;
  ProgramBuilder b_;
  std::vector<std::uint32_t> weights_, gradients_;  // five a layer
  std::vector<std::vector<Saved>> saved_;
  std::vector<std::uint32_t> outputs_;
};

}  // namespace trainyard
