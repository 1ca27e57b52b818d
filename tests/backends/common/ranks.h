#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/common/rank_state.h"
#include "core/plan/plan.h"
#include "tests/backends/common/saved_runs.h"

namespace trainyard {

// The memory of every rank of a job, filled with bytes that no test expects.
class Ranks {
 public:
  explicit Ranks(const Job& job) : job_(job), programs_(plan(job)) {
    for (std::int32_t r = 0; r < job.mesh().size(); ++r) {
      const auto bytes = static_cast<std::size_t>(program(r).arena_bytes.value);
      memory_.emplace_back(bytes, std::byte{0xab});
      views_.push_back(std::make_unique<HostRankMemory>(memory_.back()));
      states_.emplace_back(job_, program(r), coord(r), *views_.back());
    }
  }

  // Initial weights of the seed, those of the next seed as the first moments and so on.
  void start(std::uint64_t seed) {
    const auto weights = [&](std::uint64_t s) {
      return InitialWeights(job_.model, job_.batch.sequence_length, s);
    };
    for (std::int32_t r = 0; r < size(); ++r) {
      RankState& state = states_[r];
      std::vector<std::vector<float>> moments;
      for (const std::uint64_t s : {seed + 1, seed + 2}) {
        state.start(weights(s));
        for (const BucketLayout& bucket : state.buckets())
          moments.push_back(numbers(r, stepped_weights(r, bucket.name)));
      }
      state.start(weights(seed));
      auto next = moments.begin();
      for (const char* moment : {"moment1", "moment2"})
        for (const BucketLayout& bucket : state.buckets())
          std::memcpy(flat(r, bucket.name + "." + moment).data(), next->data(), 4 * next->size()),
              ++next;
    }
  }

  std::string save(const std::filesystem::path& root) {
    std::vector<std::unique_ptr<CheckpointWriter>> writers;
    for (std::int32_t r = 0; r < size(); ++r)
      writers.push_back(std::make_unique<CheckpointWriter>(options_of(root, r, size())));
    for (std::int32_t r = 0; r < size(); ++r)
      writers[r]->start(manifest_of(job_, 1), states_[r].save());
    std::string problems;
    for (auto& writer : writers) problems += writer->wait();
    return problems;
  }
  void load(const CheckpointReader& reader, bool moments = true) {
    for (RankState& state : states_) state.load(reader, moments);
  }

  std::int32_t size() const { return static_cast<std::int32_t>(states_.size()); }
  RankState& state(std::int32_t rank) { return states_[rank]; }

  // A flat buffer that lasts, by its name ("chunk0.master"); no bytes if there is none.
  std::span<std::byte> flat(std::int32_t rank, const std::string& name) {
    for (const BufferSpec& spec : program(rank).buffers) {
      const BufferType& type = program(rank).buffer_types[spec.type];
      if (spec.parent == kNone && type.name == name && type.persistent)
        return std::span(memory_[rank]).subspan(spec.offset.value, type.size().value);
    }
    return {};
  }
  std::vector<float> numbers(std::int32_t rank, const std::string& name) {
    const std::span<std::byte> bytes = flat(rank, name);
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  // The fp32 weights that the optimizer of this rank steps.
  std::string stepped_weights(std::int32_t rank, const std::string& bucket) {
    for (const char* what : {".master", ".param_shard"})
      if (!flat(rank, bucket + what).empty()) return bucket + what;
    return bucket + ".params";
  }

 private:
  Coord coord(std::int32_t rank) const { return job_.mesh().coord(RankId(rank)); }
  const Program& program(std::int32_t rank) const {
    return *programs_.by_stage[coord(rank)[Axis::pipeline]];
  }

  Job job_;
  ProgramSet programs_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::unique_ptr<HostRankMemory>> views_;  // of memory_; states keep references
  std::vector<RankState> states_;
};

// Three layers, four heads, an odd vocabulary.
inline Job odd_job(const TinyLayout& layout, Precision precision) {
  Job job = tiny_job(layout);
  Model& m = job.model;
  m.layers = 3, m.hidden = 8, m.heads = m.kv_heads = 4, m.vocab = 7;
  job.training.precision = precision;
  if (layout.sequence) job.batch.sequence_length = 4;
  return job;
}

}  // namespace trainyard
