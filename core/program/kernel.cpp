#include "core/program/kernel.h"

namespace trainyard {
namespace {

using K = KernelKind;
using C = CostClass;

// How to read an entry: shape[] in braces, then flag and parameter where they mean something, then
// the operands in order as name[rows,columns] with r (read), w (write) or u (update: read and
// write). Buffers have the kernel's dtype unless another is named; (…) is present only under the
// stated condition. "tokens" counts rows batch * sequence, row = b * sequence + s;
// with context parallelism, a rank's own tokens, at the places core/program/context_tokens.h tells.
// Dropout keeps with probability 1 - p and scales by 1 / (1 - p); masks are uint8. "ids" are the
// step's tokens [sequences, sequence + 1] int32; the instruction's pass tells the micro-batch, and
// the target of a position is the next token. A token that is no target is stored as its complement
// ~id, which is negative; as an input it is id all the same. Draws of dropout: core/random.h.
// Gradients carry the loss scale until the optimizer.
constexpr std::array<KernelInfo, kKernelKinds> kTable{{
    {K::gemm_forward, "gemm_forward", C::gemm,
     "{m,n,k,pieces} pieces: this is one of so many along m, issued side by side (0: the whole); "
     "flag: GemmFlag; X[m,k] r, W[k,n] r ([n,k] if transposed), (bias[1,<=n] r: for the "
     "first columns), Y[m,n] w or u: Y = X W + bias"},
    {K::gemm_input_grad, "gemm_input_grad", C::gemm,
     "{m,n,k,pieces} as gemm_forward; dY[m,k] r, W[n,k] r ([k,n] if transposed) as its forward "
     "pass holds "
     "it, dX[m,n] w or u: dX = dY W^T"},
    {K::gemm_weight_grad, "gemm_weight_grad", C::gemm,
     "{m,n,k} flag: GemmFlag; X[k,m] r, dY[k,n] r, dW[m,n] fp32 u ([n,m] if transposed), "
     "(dbias[1,<=n] fp32 u): dW += X^T dY, dbias += column sums of dY"},
    {K::attention_forward, "attention_forward", C::attention,
     "{batch,heads,kv_heads,sequence,head_dim,window} parameter: dropout; window 0: all earlier "
     "keys; qkv[tokens,(heads+2*kv_heads)*head_dim] r, out[tokens,heads*head_dim] w, "
     "lse[batch*heads,sequence] fp32 w. flag: context ranks c if above 1; then tokens are this "
     "rank's, a c-th of each sequence, lse[batch*heads,sequence/c], and kv[c*tokens,"
     "2*kv_heads*head_dim] r comes after qkv: keys and values of all context ranks' tokens, "
     "rank by rank"},
    {K::attention_backward, "attention_backward", C::attention,
     "as attention_forward; qkv r, (kv r), out r, lse fp32 r, dout r, dqkv w (of context ranks: "
     "the query columns only), (dkv as kv w: this rank's queries' part of the gradient)"},
    {K::attention_scores, "attention_scores", C::attention,
     "{batch*heads,m,n,k} m = n = sequence, k = head_dim; qkv r, S[batch*heads*sequence,sequence] "
     "w: S[m,n] = Q[m,k] K[n,k]^T a head; grouped heads share K"},
    {K::attention_scores_grad, "attention_scores_grad", C::attention,
     "as attention_scores; qkv r, dS r, dqkv u: writes the Q and K columns, keeps the V columns"},
    {K::attention_context, "attention_context", C::attention,
     "{batch*heads,m,n,k} m = k = sequence, n = head_dim; qkv r, P[batch*heads*sequence,sequence] "
     "r, out[tokens,heads*head_dim] w: out[m,n] = P[m,k] V[k,n] a head"},
    {K::attention_context_grad, "attention_context_grad", C::attention,
     "as attention_context; qkv r, P r, dout r, dP w, dqkv w: writes the V columns only"},
    {K::softmax_forward, "softmax_forward", C::memory,
     "{batch*heads*sequence,sequence,window} parameter: scale 1/sqrt(head_dim); S r, P w: "
     "causal (and window) mask, softmax over a row"},
    {K::softmax_backward, "softmax_backward", C::memory,
     "as softmax_forward; P r, dS u: dP before, scale * P * (dP - sum(P * dP)) after"},
    {K::dropout_forward, "dropout_forward", C::memory,
     "{rows,columns,heads} parameter: p; X r, Y w, mask w, or in place X u, mask w; rows are "
     "tokens (heads 0), or queries (batch * heads + head) * sequence + query"},
    {K::dropout_backward, "dropout_backward", C::memory, "as dropout_forward; mask r, dX u"},
    {K::rope_forward, "rope_forward", C::memory,
     "{tokens,heads,kv_heads,head_dim,sequence} sequence: this rank's tokens of one; parameter: "
     "base; qkv u: rotates Q and K in place, element i of a head with element i + head_dim / 2"},
    {K::rope_backward, "rope_backward", C::memory,
     "as rope_forward; dqkv u: rotates back in place"},
    {K::norm_forward, "norm_forward", C::memory,
     "{rows,columns} flag 0: LayerNorm, 1: RMSNorm; x r, gamma[1,columns] r (LayerNorm: "
     "[2,columns], gamma then beta), y w, stats[rows,2] fp32 w: mean and 1/deviation"},
    {K::norm_backward, "norm_backward", C::memory,
     "as norm_forward; dy r, x r, stats r, gamma r, dx w, dgamma fp32 u as gamma, (residual "
     "gradient r, added to dx)"},
    {K::activation_forward, "activation_forward", C::memory,
     "{rows,columns} columns of the result; flag 0: GELU (tanh form), 1: SwiGLU (x has 2*columns: "
     "gate, then "
     "value); x r, y w, (bias as a row of x r, added to x first)"},
    {K::activation_backward, "activation_backward", C::memory,
     "as activation_forward; x r, dy r, dx w, (bias r, dbias fp32 u)"},
    {K::residual_forward, "residual_forward", C::memory,
     "{rows,columns} flag bit 0: bias; parameter: dropout p; x r, residual r, out w, "
     "(bias[1,columns] r), (p > 0: mask w): out = residual + dropout(x + bias)"},
    {K::residual_backward, "residual_backward", C::memory,
     "as residual_forward; dout r, (p > 0: mask r, dx w), (bias: dbias fp32 u); the gradient of "
     "residual is dout itself, and that of x too without dropout"},
    {K::add, "add", C::memory,
     "{rows,columns} flag 0: b is like a, 1: b is the position table[sequence,columns]; a u, b r"},
    {K::copy_columns, "copy_columns", C::memory,
     "{rows,columns,first} flag 0: from[rows,>=first+columns] r, to[rows,columns] w; 1: "
     "from[rows,columns] r, to[rows,>=first+columns] u: columns from `first` on of the wide one"},
    {K::embedding_forward, "embedding_forward", C::memory,
     "{tokens,hidden}; ids r, table[local_vocab,hidden] r, out w: rows outside this rank's part of "
     "the table count as zero"},
    {K::embedding_backward, "embedding_backward", C::memory,
     "{rows,hidden} flag 0: ids r, dout r, dtable fp32 u; 1: dout r, dpositions fp32 u"},
    {K::loss_max, "loss_max", C::memory, "{rows,local_vocab}; logits r, max[rows,1] fp32 w"},
    {K::loss_sum, "loss_sum", C::memory,
     "{rows,local_vocab}; logits r, ids r, max r, sums[rows,2] fp32 w: sum of exp(logit - max) and "
     "the target's logit, each over this rank's part of the vocabulary"},
    {K::loss_forward, "loss_forward", C::memory,
     "{rows,2}; ids r, max r, sums r, loss[1,2] fp32 u: adds the valid tokens' losses and their "
     "number; a negative target is no valid token"},
    {K::loss_backward, "loss_backward", C::memory,
     "{rows,local_vocab}; logits r, ids r, max r, sums r, dlogits w: (softmax - one-hot) * "
     "loss scale / valid tokens of the global batch"},
    {K::adam, "adam", C::optimizer,
     "{elements} decay added to the gradient; grad r, m u, v u, master u, all fp32, param w; in "
     "fp32 training param takes the master's place"},
    {K::adamw, "adamw", C::optimizer, "as adam, decoupled decay"},
    {K::lamb_update, "lamb_update", C::optimizer,
     "{elements}; grad r, m u, v u, master r, direction w, norms[tensors,2] w, all fp32: each "
     "tensor's sums of squares of weight and direction over this rank's part; a replicated tensor "
     "counts on tensor rank 0"},
    {K::lamb_apply, "lamb_apply", C::optimizer,
     "{elements}; direction r, norms r, master u, all fp32, param w; fp32 as adam"},
    {K::grad_norm, "grad_norm", C::optimizer,
     "{elements}; grad fp32 r, norm[1,2] fp32 u: adds the sum of squares and the number of values "
     "that are not finite; a replicated tensor counts on tensor rank 0, a tied table on the first "
     "stage"},
    {K::grad_clip, "grad_clip", C::optimizer,
     "{elements} parameter: largest norm; grad fp32 u, norm r (sum of squares)"},
    {K::zero, "zero", C::memory, "{elements}; x w"},
}};

constexpr bool every_kind_once_in_order() {
  for (int i = 0; i < kKernelKinds; ++i)
    if (static_cast<int>(kTable[i].kind) != i || kTable[i].name.empty()) return false;
  return true;
}
static_assert(every_kind_once_in_order(), "kTable lists each KernelKind once, in order");

}  // namespace

const KernelInfo& kernel_info(KernelKind kind) { return kTable[static_cast<std::size_t>(kind)]; }

std::string_view second_form(KernelKind kind) {
  switch (kind) {
    case K::attention_forward:
    case K::attention_backward:
    case K::residual_forward:
    case K::residual_backward:
      return "dropout";
    case K::norm_forward:
    case K::norm_backward:
      return "rms";
    case K::activation_forward:
    case K::activation_backward:
      return "swiglu";
    case K::add:
    case K::embedding_backward:
      return "positions";
    default:
      return "";
  }
}

std::string cost_name(const KernelSpec& kernel) {
  std::string name(kernel_info(kernel.kind).name);
  const std::string_view form = second_form(kernel.kind);
  const bool second = form == "dropout" ? kernel.parameter > 0 : kernel.flag == 1;
  return form.empty() || !second ? name : name.append("_").append(form);
}

std::vector<std::string> cost_names() {
  std::vector<std::string> names;
  for (const KernelInfo& info : kTable) {
    names.emplace_back(info.name);
    if (const std::string_view form = second_form(info.kind); !form.empty())
      names.push_back(std::string(info.name).append("_").append(form));
  }
  return names;
}

std::int64_t size_of(DType dtype) {
  static constexpr std::array<std::int64_t, 5> kSizes{4, 2, 2, 4, 1};
  return kSizes[static_cast<std::size_t>(dtype)];
}

std::string_view dtype_name(DType dtype) {
  static constexpr std::array<std::string_view, 5> kNames{"fp32", "bf16", "fp16", "int32", "uint8"};
  return kNames[static_cast<std::size_t>(dtype)];
}

}  // namespace trainyard
