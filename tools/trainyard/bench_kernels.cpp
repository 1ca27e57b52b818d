#include "tools/trainyard/bench_kernels.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/config/value.h"

namespace trainyard {
namespace {

using K = KernelKind;

// Passes a row covers.
struct Passes {
  bool forward = false, backward = false;
};

Passes passes_of(const CsvRow& row) {
  const std::string& text = row.text("direction");
  if (text == "fwd") return {.forward = true};
  if (text == "bwd") return {.backward = true};
  if (text == "fwd+bwd") return {.forward = true, .backward = true};
  return {};
}

std::optional<DType> dtype_of(const CsvRow& row) {
  // Inputs of an FP8 product are bf16 until it casts them (software.fp8_linear).
  if (row.text("dtype") == "fp8" && row.text("kernel") == "gemm") return DType::bf16;
  for (const DType type : {DType::fp32, DType::bf16, DType::fp16})
    if (row.text("dtype") == dtype_name(type)) return type;
  return {};
}

BenchKernels skipped(KernelFamily family, std::string why) {
  return {.family = family, .kernels = {}, .skip = std::move(why)};
}

// Elements that no GPU's memory holds, and lengths that no sequence has (the schema's bound).
constexpr double kMostElements = 1e15;
constexpr std::int64_t kLongest = 100'000'000;

double product(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) * static_cast<double>(b);
}

std::string no_direction(const CsvRow& row, std::string_view valid) {
  return fmt::format("direction '{}'; valid: {}", printable(row.text("direction")), valid);
}

BenchKernels gemm(const CsvRow& row, DType dtype) {
  constexpr KernelFamily kGemm = KernelFamily::gemm;
  const auto m = row.integer("m"), n = row.integer("n"), k = row.integer("k");
  if (!m || !n || !k || *m == 0 || *n == 0 || *k == 0)
    return skipped(kGemm, "a GEMM needs m, n and k of 1 or more");
  if (std::max({product(*m, *n), product(*n, *k), product(*m, *k)}) > kMostElements)
    return skipped(kGemm, "a matrix of more elements than any GPU holds");
  const std::string& direction = row.text("direction");
  if (direction != "fwd" && direction != "bwd_dgrad" && direction != "bwd_wgrad")
    return skipped(kGemm, no_direction(row, "fwd, bwd_dgrad, bwd_wgrad"));
  KernelSpec spec;
  spec.dtype = dtype;
  spec.kind = direction == "bwd_dgrad"   ? K::gemm_input_grad
              : direction == "bwd_wgrad" ? K::gemm_weight_grad
                                         : K::gemm_forward;
  spec.shape = {*m, *n, *k};
  spec.flops = 2.0 * static_cast<double>(*m) * static_cast<double>(*n) * static_cast<double>(*k);
  // A weight gradient adds to sums of 4 bytes.
  const bool sums = spec.kind == K::gemm_weight_grad;
  const std::int64_t size = size_of(dtype);
  spec.read = {size * (*m * *k + *k * *n) + (sums ? 4 * *m * *n : 0)};
  spec.written = {(sums ? 4 : size) * *m * *n};
  return {.family = KernelFamily::gemm,
          .kernels = {spec},
          .skip = "",
          .least_dim = std::min({*m, *n, *k})};
}

BenchKernels attention(const CsvRow& row, DType dtype) {
  if (row.text("causal") != "1")
    return skipped(KernelFamily::attention, "attention over all keys; kernels here are causal");
  if (row.text("d").find('/') != std::string::npos)
    return skipped(KernelFamily::attention, "heads with different key and value dimensions");
  if (row.text("impl").find("unfused") != std::string::npos)
    return skipped(KernelFamily::attention, "a chain of unfused kernels");
  constexpr KernelFamily kAttention = KernelFamily::attention;
  const auto b = row.integer("b"), h = row.integer("h"), s = row.integer("s"), d = row.integer("d");
  if (!b || !h || !s || !d || *b == 0 || *h == 0 || *s == 0 || *d == 0)
    return skipped(kAttention, "attention needs b, h, s and d of 1 or more");
  if (product(*b, *h) * product(*s, *d) > kMostElements || *s > kLongest)
    return skipped(kAttention, "more queries than any GPU holds");
  const std::int64_t key_heads = row.integer("hkv").value_or(*h);
  if (key_heads == 0 || *h % key_heads != 0)
    return skipped(kAttention, fmt::format("hkv {} does not divide h {}", key_heads, *h));
  BenchKernels out{.family = kAttention, .kernels = {}, .skip = ""};
  const Passes passes = passes_of(row);
  if (!passes.forward && !passes.backward)
    return skipped(kAttention, no_direction(row, "fwd, bwd, fwd+bwd"));
  KernelSpec spec;
  spec.dtype = dtype;
  spec.shape = {*b, *h, key_heads, *s, *d, row.integer("window").value_or(0)};
  for (const K kind : {K::attention_forward, K::attention_backward}) {
    spec.kind = kind;
    if (kind == K::attention_forward ? passes.forward : passes.backward)
      out.kernels.push_back(spec);
  }
  // Serving stacks also copy keys and values into their paged cache: a scatter of rows.
  if (row.text("note").find("KV write") != std::string::npos) {
    KernelSpec scatter;
    scatter.kind = K::embedding_forward;
    scatter.dtype = dtype;
    scatter.shape = {*b * *s, spec.shape[2] * *d};
    scatter.read = scatter.written = {2 * *b * *s * spec.shape[2] * *d * size_of(dtype)};
    out.kernels.push_back(scatter);
  }
  return out;
}

// How a memory-bound kernel of the tables is named here, and how often it reads or writes an
// element of m x n; 0: no such pass.
struct MemoryKernel {
  const char* name;
  std::vector<K> forward, backward;
  double forward_accesses, backward_accesses;
};

const std::vector<MemoryKernel>& memory_kernels() {
  static const std::vector<MemoryKernel> kKernels{
      {"add", {K::add}, {}, 3, 0},
      {"mul", {K::add}, {}, 3, 0},
      {"residual_add", {K::add}, {}, 3, 0},
      {"gelu", {K::activation_forward}, {}, 2, 0},
      {"silu_and_mul", {K::activation_forward}, {}, 3, 0},
      {"megatron_swiglu", {K::activation_forward}, {K::activation_backward}, 3, 5},
      {"rms_norm", {K::norm_forward}, {K::norm_backward}, 2, 3},
      {"megatron_rms_norm", {K::norm_forward}, {K::norm_backward}, 2, 3},
      {"layer_norm", {K::norm_forward}, {K::norm_backward}, 2, 3},
      {"softmax", {K::softmax_forward}, {}, 2, 0},
      {"rope", {K::rope_forward}, {K::rope_backward}, 2, 2},
      {"embedding", {K::embedding_forward}, {K::embedding_backward}, 2, 3},
      {"cross_entropy", {K::loss_max, K::loss_sum}, {K::loss_backward}, 1, 2},
      {"megatron_cross_entropy", {K::loss_max, K::loss_sum}, {K::loss_backward}, 1, 2},
  };
  return kKernels;
}

// Columns of rotary embedding count queries only; keys come on top ("num_kv_heads: 8" of 32).
double with_keys(const CsvRow& row) {
  const std::string& note = row.text("note");
  const auto count = [&](const std::string& name) {
    const std::size_t at = note.find(name);
    return at == std::string::npos ? 0.0 : std::atof(note.c_str() + at + name.size());
  };
  const double queries = count("num_q_heads: ");
  return queries > 0 ? 1 + count("num_kv_heads: ") / queries : 1;
}

BenchKernels memory(const CsvRow& row, const MemoryKernel& kernel, DType dtype) {
  const auto m = row.integer("m");
  const std::int64_t n = row.integer("n").value_or(1);  // GELU of m elements
  if (!m || *m == 0 || n == 0)
    return skipped(KernelFamily::memory,
                   "a memory-bound kernel needs m, and n where told, of 1 or more");
  if (product(*m, n) > kMostElements)
    return skipped(KernelFamily::memory, "more elements than any GPU holds");
  const Passes passes = passes_of(row);
  if (!passes.forward && !passes.backward)
    return skipped(KernelFamily::memory, no_direction(row, "fwd, bwd, fwd+bwd"));
  if (passes.backward && kernel.backward.empty())
    return skipped(KernelFamily::memory, "no such backward pass");
  BenchKernels out{.family = KernelFamily::memory, .kernels = {}, .skip = ""};
  const bool rope = kernel.forward[0] == K::rope_forward;
  const double elements =
      static_cast<double>(*m) * static_cast<double>(n) * (rope ? with_keys(row) : 1);
  const auto add = [&](const std::vector<K>& kinds, double accesses) {
    for (const K kind : kinds) {
      KernelSpec spec;
      spec.kind = kind;
      spec.dtype = dtype;
      spec.shape = {*m, n};
      spec.read = {
          static_cast<std::int64_t>(elements * accesses * static_cast<double>(size_of(dtype)))};
      out.kernels.push_back(spec);
    }
  };
  if (passes.forward) add(kernel.forward, kernel.forward_accesses);
  if (passes.backward) add(kernel.backward, kernel.backward_accesses);
  return out;
}

}  // namespace

BenchKernels bench_kernels(const CsvRow& row) {
  const std::string& name = row.text("kernel");
  const KernelFamily family = name == "gemm"        ? KernelFamily::gemm
                              : name == "attention" ? KernelFamily::attention
                                                    : KernelFamily::memory;
  const std::optional<DType> dtype = dtype_of(row);
  if (!dtype)
    return skipped(family, fmt::format("{} is no type of kernels here",
                                       row.text("dtype").empty() ? "nothing" : row.text("dtype")));
  if (family == KernelFamily::gemm) return gemm(row, *dtype);
  if (family == KernelFamily::attention) return attention(row, *dtype);
  for (const MemoryKernel& kernel : memory_kernels())
    if (kernel.name == name) return memory(row, kernel, *dtype);
  return skipped(family, fmt::format("'{}' is not one kernel here", name));
}

}  // namespace trainyard
