#include "backends/cuda/kernels/chunks.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/cuda/kernels/cuda_error.h"
#include "core/error.h"

namespace trainyard::cuda_kernels {
namespace {

// Adds chunks of [first, first + elements).
void cut(const FlatTensor& t, std::int32_t number, std::vector<Chunk>& chunks) {
  for (std::int64_t at = t.first; at < t.first + t.elements;) {
    const std::int64_t end = std::min((at / kChunk + 1) * kChunk, t.first + t.elements);
    chunks.push_back({at, static_cast<std::int32_t>(end - at), number, t.in_gradient_norm,
                      t.in_own_norm, t.decays});
    at = end;
  }
}

// What lies between the tensors.
void cut_gaps(std::span<const FlatTensor> tensors, std::int64_t elements,
              std::vector<Chunk>& chunks) {
  std::vector<std::pair<std::int64_t, std::int64_t>> taken;
  for (const FlatTensor& t : tensors)
    if (t.elements > 0) taken.emplace_back(t.first, t.first + t.elements);
  std::ranges::sort(taken);
  taken.emplace_back(elements, elements);
  std::int64_t at = 0;
  for (const auto& [first, end] : taken) {
    if (first > at) cut({at, first - at, false, false, false}, -1, chunks);
    at = std::max(at, end);
  }
}

template <class T>
const T* upload(const std::vector<T>& values, DeviceBytes& memory) {
  memory = DeviceBytes(std::max<std::size_t>(1, values.size()) * sizeof(T));
  require(
      cudaMemcpy(memory.data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
      "cudaMemcpy of a list of tensors");
  return static_cast<const T*>(memory.data());
}

}  // namespace

DeviceTensors upload_tensors(std::span<const FlatTensor> tensors, std::int64_t elements) {
  const FlatTensor whole{.first = 0, .elements = elements};
  if (tensors.empty()) tensors = {&whole, 1};
  std::vector<Chunk> chunks;
  std::vector<std::int32_t> first;
  for (const FlatTensor& t : tensors) {
    check(t.first >= 0 && t.elements >= 0 && t.first + t.elements <= elements,
          "a tensor at {} of {} elements in a buffer of {}", t.first, t.elements, elements);
    first.push_back(static_cast<std::int32_t>(chunks.size()));
    cut(t, static_cast<std::int32_t>(first.size()) - 1, chunks);
  }
  first.push_back(static_cast<std::int32_t>(chunks.size()));
  cut_gaps(tensors, elements, chunks);
  DeviceTensors out;
  out.chunks = upload(chunks, out.chunk_memory);
  out.chunk_count = static_cast<std::int64_t>(chunks.size());
  out.first_chunk = upload(first, out.tensor_memory);
  out.tensor_count = static_cast<std::int64_t>(tensors.size());
  return out;
}

}  // namespace trainyard::cuda_kernels
