#pragma once
#include <cstdint>

#include "backends/cuda/kernels/attention_plans.h"
#include "backends/cuda/kernels/cudnn_graph.h"

namespace trainyard {

// Ids of the tensors in memory: of the qkv buffer and its gradient the first element that is read
// or written.
struct CudnnAttentionIds {
  enum : std::int64_t {
    query = 1,
    key,
    value,
    out,
    lse,
    scale,   // 1 / sqrt(dim), the host's
    mask,    // minus infinity, the host's
    window,  // the host's; only if there is one
    one,     // the host's, backward
    dout,    // backward, as are those that follow
    dquery,
    dkey,
    dvalue,
    delta,        // fp32 [b,h,s,1], for nothing but the plan
    dquery_sums,  // fp32 [b,h,s,d], for nothing but the plan; not if repeatable
  };
};

// Fused attention as operations that cuDNN's engines recognise. What its attention operation of one
// piece (CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR) lacks before cuDNN 9.21 is a mask.
CudnnGraph cudnn_attention_graph(const AttentionCase& what);

}  // namespace trainyard
