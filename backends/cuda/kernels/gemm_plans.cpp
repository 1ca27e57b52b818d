#include "backends/cuda/kernels/gemm_plans.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/kernels/cuda_error.h"

namespace trainyard {
namespace {

// What NVIDIA recommends for Hopper; less would keep split products from being chosen.
constexpr std::size_t kWorkspace = std::size_t{32} << 20;

void must(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw CudaError(fmt::format("{}: {} (cuBLAS status {})", call, cublasLtGetStatusString(status),
                                static_cast<int>(status)));
}

cudaDataType_t data_type(DType dtype) {
  return dtype == DType::bf16 ? CUDA_R_16BF : dtype == DType::fp16 ? CUDA_R_16F : CUDA_R_32F;
}

std::uint32_t alignment(const void* p) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(256, address & (~address + 1)));
}

}  // namespace

// A row-major matrix of `rows` rows is a column-major one of `rows` columns.
struct MatrixLayout {
  MatrixLayout(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
    must(cublasLtMatrixLayoutCreate(&layout, data_type(dtype), static_cast<std::uint64_t>(columns),
                                    static_cast<std::uint64_t>(rows), stride),
         "cublasLtMatrixLayoutCreate");
  }
  ~MatrixLayout() { cublasLtMatrixLayoutDestroy(layout); }
  MatrixLayout(const MatrixLayout&) = delete;
  MatrixLayout& operator=(const MatrixLayout&) = delete;

  void repeat(std::int64_t batch, std::int64_t step) {
    const auto count = static_cast<std::int32_t>(batch);
    must(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                          sizeof count),
         "CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT");
    must(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                          &step, sizeof step),
         "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET");
  }

  cublasLtMatrixLayout_t layout = nullptr;
};

namespace {

struct Preference {
  Preference() {
    must(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  template <class V>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, V value) {
    must(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
         "cublasLtMatmulPreferenceSetAttribute");
  }
  cublasLtMatmulPreference_t preference = nullptr;
};

}  // namespace

// In column-major terms y^T[n,m] = b^T a^T: the library's first factor is b, and the bias goes
// along its rows.
struct GemmPlans::Plan {
  explicit Plan(const GemmCall& c)
      : a(c.in, c.a_transposed ? c.k : c.m, c.a_transposed ? c.m : c.k, c.a_stride),
        b(c.in, c.b_transposed ? c.n : c.k, c.b_transposed ? c.k : c.n, c.b_stride),
        y(c.out, c.m, c.n, c.y_stride) {
    must(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
         "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, c.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, c.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (c.biased) set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    if (c.batch == 1) return;
    a.repeat(c.batch, c.a_step);
    b.repeat(c.batch, c.b_step);
    y.repeat(c.batch, c.y_step);
  }
  ~Plan() { cublasLtMatmulDescDestroy(product); }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  template <class V>
  void set(cublasLtMatmulDescAttributes_t attribute, V value) {
    must(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value),
         "cublasLtMatmulDescSetAttribute");
  }

  MatrixLayout a, b, y;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatmulHeuristicResult_t choice{};
};

GemmPlans::GemmPlans() : workspace_(kWorkspace) {
  must(cublasLtCreate(&handle_), "cublasLtCreate");
}

GemmPlans::~GemmPlans() { cublasLtDestroy(handle_); }

GemmPlans::Plan& GemmPlans::plan(const Key& key) {
  std::unique_ptr<Plan>& plan = plans_[key];
  if (plan) return *plan;
  auto made = std::make_unique<Plan>(key.call);
  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_.size());
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b_alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a_alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.y_alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.y_alignment);
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, made->product, made->b.layout, made->a.layout, made->y.layout, made->y.layout,
      preference.preference, 1, &made->choice, &found);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0)
    throw CudaError(fmt::format(
        "cuBLASLt has no algorithm for [{0},{2}] x [{2},{1}] in {3} (cuBLAS "
        "status {4})",
        key.call.m, key.call.n, key.call.k, dtype_name(key.call.in), static_cast<int>(status)));
  plan = std::move(made);
  return *plan;
}

void GemmPlans::run(const GemmCall& call, const GemmPointers& p, cudaStream_t stream) {
  if (call.m == 0 || call.n == 0) return;
  Plan& plan = this->plan({call, alignment(p.a), alignment(p.b), alignment(p.y)});
  if (call.biased) plan.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  const float alpha = 1, beta = call.adds ? 1 : 0;
  must(cublasLtMatmul(handle_, plan.product, &alpha, p.b, plan.b.layout, p.a, plan.a.layout, &beta,
                      p.y, plan.y.layout, p.y, plan.y.layout, &plan.choice.algo, workspace_.data(),
                      plan.choice.workspaceSize, stream),
       "cublasLtMatmul");
}

}  // namespace trainyard
