#include <cublasLt.h>

#include <cstring>
#include <utility>

#include "tests/cuda_on_host/matrix_product.h"
#include "tests/cuda_on_host/stream.h"

// What the library promises and what it asks for is checked: sizes that fit, an algorithm that the
// heuristic gave for this very product, its workspace, operands as aligned as was said.

using trainyard::cuda_on_host::ColumnMajor;
using trainyard::cuda_on_host::Product;

struct cublasLtContext {
  int products = 0;
};
struct cublasLtMatrixLayoutOpaque_t {
  ColumnMajor matrix;
  std::int32_t batch = 1;
  std::int64_t step = 0;
};
struct cublasLtMatmulDescOpaque_t {
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t a = 256, b = 256, c = 256, d = 256;
};

namespace {

constexpr std::size_t kSomeWorkspace = 1024;

template <class V>
cublasStatus_t set(V& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof(V)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

bool fits(const cublasLtMatmulDescOpaque_t& desc, const cublasLtMatrixLayoutOpaque_t& a,
          const cublasLtMatrixLayoutOpaque_t& b, const cublasLtMatrixLayoutOpaque_t& d) {
  const auto rows = [](const ColumnMajor& m, cublasOperation_t op) {
    return op == CUBLAS_OP_N ? m.rows : m.columns;
  };
  const auto columns = [](const ColumnMajor& m, cublasOperation_t op) {
    return op == CUBLAS_OP_N ? m.columns : m.rows;
  };
  for (const auto* layout : {&a, &b, &d})
    if (layout->matrix.ld < static_cast<std::int64_t>(layout->matrix.rows) ||
        layout->batch != d.batch)
      return false;
  return rows(a.matrix, desc.a) == d.matrix.rows && columns(b.matrix, desc.b) == d.matrix.columns &&
         columns(a.matrix, desc.a) == rows(b.matrix, desc.b) && a.matrix.type == b.matrix.type &&
         (d.matrix.type == a.matrix.type || d.matrix.type == CUDA_R_32F);
}

// What an algorithm was chosen for.
cublasLtMatmulAlgo_t name_of(const cublasLtMatmulDescOpaque_t& desc, const ColumnMajor& a,
                             const ColumnMajor& b, const cublasLtMatmulPreferenceOpaque_t& p) {
  cublasLtMatmulAlgo_t algo{};
  algo.data[0] = a.rows << 32 | a.columns;
  algo.data[1] = b.rows << 32 | b.columns;
  algo.data[2] = static_cast<std::uint64_t>(desc.a) << 8 | static_cast<std::uint64_t>(desc.b) << 4 |
                 static_cast<std::uint64_t>(desc.epilogue);
  algo.data[3] = std::uint64_t{p.a} << 32 | p.b;
  algo.data[4] = p.d;
  return algo;
}

// What the library's calls that create and destroy a thing do.
template <class Thing>
cublasStatus_t create(Thing** to, Thing thing = {}) {
  *to = new Thing(std::move(thing));
  return CUBLAS_STATUS_SUCCESS;
}
template <class Thing>
cublasStatus_t destroy(Thing* thing) {
  delete thing;
  return CUBLAS_STATUS_SUCCESS;
}

bool is_aligned(const void* p, std::uint64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
}

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    default:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return create(handle); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  return create(layout, {{type, rows, cols, ld}});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
  return attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? set(layout->batch, value, bytes)
                                                         : set(layout->step, value, bytes);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t,
                                        cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
  return create(desc);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(desc); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(desc->a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(desc->b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(desc->epilogue, value, bytes);
    default:
      return set(desc->bias, value, bytes);
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(preference->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(preference->a, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(preference->b, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(preference->c, value, bytes);
    default:
      return set(preference->d, value, bytes);
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  *found = 0;
  if (handle == nullptr || requested < 1 || !fits(*desc, *a, *b, *d))
    return CUBLAS_STATUS_INVALID_VALUE;
  results[0] = {};
  results[0].algo = name_of(*desc, a->matrix, b->matrix, *preference);
  results[0].workspaceSize = preference->workspace < kSomeWorkspace ? 0 : kSomeWorkspace;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  if (handle == nullptr || algo == nullptr || c != d || c_layout != d_layout ||
      !fits(*desc, *a_layout, *b_layout, *d_layout) || workspace_bytes < kSomeWorkspace ||
      !is_aligned(workspace, 256))
    return CUBLAS_STATUS_INVALID_VALUE;
  cublasLtMatmulPreferenceOpaque_t said;
  said.a = static_cast<std::uint32_t>(algo->data[3] >> 32);
  said.b = static_cast<std::uint32_t>(algo->data[3]);
  said.d = static_cast<std::uint32_t>(algo->data[4]);
  const cublasLtMatmulAlgo_t expected = name_of(*desc, a_layout->matrix, b_layout->matrix, said);
  if (std::memcmp(&expected, algo, sizeof expected) != 0 || !is_aligned(a, said.a) ||
      !is_aligned(b, said.b) || !is_aligned(d, said.d))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool biased = desc->epilogue == CUBLASLT_EPILOGUE_BIAS;
  if (biased && desc->bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Product product{a_layout->matrix,
                        b_layout->matrix,
                        d_layout->matrix,
                        desc->a == CUBLAS_OP_T,
                        desc->b == CUBLAS_OP_T,
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta),
                        biased ? desc->bias : nullptr};
  const auto la = *a_layout, lb = *b_layout, ld = *d_layout;
  trainyard::cuda_on_host::enqueue(stream, [product, la, lb, ld, a, b, d, workspace] {
    std::memset(workspace, 0xff, kSomeWorkspace);  // as the library may write there
    const auto at = [](auto* data, const cublasLtMatrixLayoutOpaque_t& layout, std::int32_t i) {
      const std::int64_t bytes = trainyard::cuda_on_host::bytes_of(layout.matrix.type);
      using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(data)>>,
                                      const char, char>;
      return static_cast<Byte*>(data) + i * layout.step * bytes;
    };
    for (std::int32_t i = 0; i < ld.batch; ++i)
      multiply(product, at(a, la, i), at(b, lb, i), at(d, ld, i));
  });
  return CUBLAS_STATUS_SUCCESS;
}
