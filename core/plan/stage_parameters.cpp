#include "core/plan/stage_parameters.h"

#include <fmt/core.h>

#include <algorithm>

namespace trainyard {
namespace {

class Builder {
 public:
  Builder(Emitter& emitter, const Dims& dims) : e_(emitter), d_(dims) {}

  StageParameters build(const std::vector<ChunkShape>& chunks) {
    const bool ends = std::any_of(chunks.begin(), chunks.end(),
                                  [](const ChunkShape& c) { return c.embeds || c.heads; });
    if (ends && d_.model.tied) {
      result_.tied_bucket = static_cast<std::int32_t>(result_.buckets.size());
      result_.buckets.push_back(make_bucket(e_, d_, "embedding", {table("embedding")}));
      result_.buckets.back().embedding = true;
    }
    for (std::size_t c = 0; c < chunks.size(); ++c) add_chunk(c, chunks[c]);
    return std::move(result_);
  }

 private:
  Tensor table(const char* name) const { return {name, d_.local_vocab, d_.hidden(), false}; }

  std::int32_t add_bucket(std::string name, std::vector<Tensor> tensors) {
    result_.buckets.push_back(make_bucket(e_, d_, std::move(name), std::move(tensors)));
    return static_cast<std::int32_t>(result_.buckets.size()) - 1;
  }

  void add_chunk(std::size_t c, const ChunkShape& shape) {
    ChunkParameters chunk;
    std::vector<Tensor> tensors;
    const bool by_layer = d_.zero >= 2;
    for (std::int64_t i = 0; i < shape.layers; ++i) {
      const std::vector<Tensor> layer = layer_tensors(d_, shape.first_layer + i);
      if (by_layer) {
        const std::int32_t bucket =
            add_bucket(fmt::format("layer{}", shape.first_layer + i), layer);
        chunk.layers.push_back({bucket, 0});
        chunk.buckets.insert(chunk.buckets.begin(), bucket);
      } else {
        chunk.layers.push_back({next_bucket(), static_cast<std::int32_t>(tensors.size())});
        tensors.insert(tensors.end(), layer.begin(), layer.end());
      }
    }
    const auto finish = [&](const char* name, auto before) {
      if (tensors.empty()) return;
      const std::int32_t bucket = add_bucket(fmt::format("{}{}", name, c), std::move(tensors));
      chunk.buckets.insert(before(), bucket);
      tensors.clear();
    };
    const auto first = [&] { return chunk.buckets.begin(); };
    const auto last = [&] { return chunk.buckets.end(); };
    add_embedding(chunk, shape, tensors);
    // What forward needs first, backward is done with last: apart from what the head needs.
    if (by_layer) finish("ends", last);
    add_head(chunk, shape, tensors);
    finish(!by_layer      ? "chunk"
           : shape.embeds ? "head"
                          : "ends",
           [&] { return by_layer ? first() : last(); });
    result_.chunks.push_back(std::move(chunk));
  }

  TensorRef add(std::vector<Tensor>& tensors, Tensor tensor) const {
    tensors.push_back(std::move(tensor));
    return {next_bucket(), static_cast<std::int32_t>(tensors.size()) - 1};
  }

  void add_embedding(ChunkParameters& chunk, const ChunkShape& shape,
                     std::vector<Tensor>& tensors) {
    const TensorRef tied{result_.tied_bucket, 0};
    if (shape.embeds) {
      chunk.table = d_.model.tied ? tied : add(tensors, table("embedding"));
      if (d_.model.position == Position::learned)
        chunk.positions = add(tensors, {"positions", d_.sequence, d_.hidden(), true});
    }
  }

  void add_head(ChunkParameters& chunk, const ChunkShape& shape, std::vector<Tensor>& tensors) {
    const TensorRef tied{result_.tied_bucket, 0};
    if (shape.heads) {
      const std::int64_t rows = d_.model.norm == Norm::layernorm ? 2 : 1;
      chunk.norm = add(tensors, {"final_norm", rows, d_.hidden(), true});
      chunk.head = d_.model.tied ? tied : add(tensors, table("head"));
    }
  }

  std::int32_t next_bucket() const { return static_cast<std::int32_t>(result_.buckets.size()); }

  Emitter& e_;
  const Dims& d_;
  StageParameters result_;
};

}  // namespace

std::vector<ChunkShape> stage_chunks(const Job& job, std::int32_t stage) {
  const std::int32_t p = job.parallel.pipeline, v = job.parallel.virtual_stages;
  const auto& uneven = job.parallel.layers_per_stage;
  const auto layers_of = [&](std::int32_t s, std::int32_t c) -> std::int64_t {
    return uneven.empty() ? job.model.layers / (p * v) : uneven[s * v + c];
  };
  std::vector<ChunkShape> chunks;
  std::int64_t first = 0;
  for (std::int32_t g = 0; g < p * v; ++g) {
    const std::int64_t layers = layers_of(g % p, g / p);
    if (g % p == stage) chunks.push_back({first, layers, g == 0, g == p * v - 1});
    first += layers;
  }
  return chunks;
}

StageParameters stage_parameters(Emitter& emitter, const Dims& dims,
                                 const std::vector<ChunkShape>& chunks) {
  return Builder(emitter, dims).build(chunks);
}

}  // namespace trainyard
