#include "backends/cuda/kernels/cudnn_attention.h"

#include <fmt/format.h>

#include <utility>

#include "backends/cuda/kernels/cuda_error.h"
#include "core/error.h"

namespace trainyard {
namespace {

// What cuDNN's own front end spends at most on the gradients of all scores, which a backward pass
// with sums in a fixed order keeps in memory (cudnn-frontend,
// node/scaled_dot_product_flash_attention.h: max_dp_workspace_bytes).
constexpr std::size_t kMostScratch = std::size_t{256} << 20;

bool is_fused_attention(const KernelSpec& spec) {
  return spec.kind == KernelKind::attention_forward || spec.kind == KernelKind::attention_backward;
}

AttentionCase case_of(const KernelSpec& spec, const AttentionChoice& choice) {
  const bool backward = spec.kind == KernelKind::attention_backward;
  return {cuda_kernels::fused_heads(spec), spec.dtype, backward, choice.repeatable};
}

// Whether rows follow each other without gaps, from an address that 16-byte accesses can have.
bool is_plain(const Matrix& m) {
  return (m.rows == 1 || m.row_stride == m.columns) &&
         reinterpret_cast<std::uintptr_t>(m.data) % 16 == 0;
}

}  // namespace

std::size_t CudnnAttention::prepare(const KernelSpec& spec) {
  if (choice_.kernels == AttentionChoice::Kernels::own || !is_fused_attention(spec)) return 0;
  if (spec.parameter > 0) {
    static_cast<void>(refuse(spec, case_of(spec, choice_), "its dropout has draws of its own"));
    return 0;
  }
  const AttentionCase what = case_of(spec, choice_);
  if (what.heads.context > 1) {
    static_cast<void>(refuse(spec, what, "its queries are two pieces of the sequence"));
    return 0;
  }
  const auto [entry, is_new] = plans_.try_emplace(what);
  if (is_new) entry->second = plan(spec, what);
  return entry->second == nullptr ? 0 : entry->second->scratch_bytes();
}

std::unique_ptr<AttentionPlan> CudnnAttention::plan(const KernelSpec& spec,
                                                    const AttentionCase& what) {
  if (what.dtype == DType::fp32) return refuse(spec, what, "it has no engine for fp32");
  if (what.heads.dim % 8 != 0) return refuse(spec, what, "its heads have a multiple of 8 elements");
  try {
    if (library_ == nullptr) library_ = cudnn_attention_plans();
    std::unique_ptr<AttentionPlan> made = library_->make(what);
    if (choice_.kernels == AttentionChoice::Kernels::automatic &&
        made->scratch_bytes() > kMostScratch)
      return refuse(spec, what,
                    fmt::format("it takes {} MiB beside the arena, more than {}",
                                made->scratch_bytes() >> 20, kMostScratch >> 20));
    return made;
  } catch (const CudaError& error) {
    return refuse(spec, what, error.what());
  }
}

std::unique_ptr<AttentionPlan> CudnnAttention::refuse(const KernelSpec& spec,
                                                      const AttentionCase& what,
                                                      const std::string& reason) {
  const auto& h = what.heads;
  std::string note =
      fmt::format("{} of {} x {} heads ({} of keys) of {} x {} in {} is not cuDNN's: {}",
                  kernel_info(spec.kind).name, h.batch, h.heads, h.kv_heads, h.sequence, h.dim,
                  dtype_name(what.dtype), reason);
  if (choice_.kernels == AttentionChoice::Kernels::cudnn)
    throw ConfigError(note + "; run.attention may be auto or own");
  if (told_.insert(note).second) notes_.push_back(std::move(note));
  return nullptr;
}

bool CudnnAttention::run(const cuda_kernels::CudaLaunch& launch) {
  if (launch.spec.parameter > 0 || launch.spec.flag > 1) return false;
  const auto found = plans_.find(case_of(launch.spec, choice_));
  if (found == plans_.end() || found->second == nullptr) return false;
  for (const Matrix& m : launch.operands)
    if (!is_plain(m)) return false;
  const AttentionCase& what = found->first;
  const auto& h = what.heads;
  const std::int64_t tokens = h.batch * h.sequence;
  const auto data = [&](std::size_t operand, DType dtype, std::int64_t rows, std::int64_t columns) {
    return cuda_kernels::operand_of(launch, operand, dtype, {rows, columns}).data;
  };
  AttentionPointers at{};
  at.qkv = data(0, what.dtype, tokens, h.qkv_columns());
  at.out = data(1, what.dtype, tokens, h.query_columns());
  at.lse = static_cast<float*>(data(2, DType::fp32, h.batch * h.heads, h.sequence));
  if (what.backward) {
    at.dout = data(3, what.dtype, tokens, h.query_columns());
    at.dqkv = data(4, what.dtype, tokens, h.qkv_columns());
  }
  found->second->run(at, launch.state.scratch(found->second->scratch_bytes()), launch.stream);
  return true;
}

}  // namespace trainyard
