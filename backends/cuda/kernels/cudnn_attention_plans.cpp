#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "backends/cuda/kernels/attention_plans.h"
#include "backends/cuda/kernels/cudnn_attention_graphs.h"

namespace trainyard {
namespace {

// Before, sequences that are no multiple of 128 need lengths of their own in the backward pass
// (cudnn-frontend, node/scaled_dot_product_flash_attention.h: has_workaround_padding_mask).
constexpr std::size_t kOldestVersion = 91600;

class CudnnHandle {
 public:
  CudnnHandle() { must_cudnn(cudnnCreate(&handle_), "cudnnCreate"); }
  ~CudnnHandle() { cudnnDestroy(handle_); }
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;
  cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

std::size_t rounded_up(std::size_t bytes) {
  constexpr std::size_t kPage = 256;
  return (bytes + kPage - 1) / kPage * kPage;
}

class CudnnAttentionPlan final : public AttentionPlan {
 public:
  CudnnAttentionPlan(const AttentionCase& what, const CudnnDescriptor& device,
                     std::shared_ptr<CudnnHandle> handle)
      : what_(what),
        plan_(cudnn_attention_graph(what), device),
        handle_(std::move(handle)),
        scale_(static_cast<float>(1 / std::sqrt(static_cast<double>(what.heads.dim)))),
        window_(static_cast<float>(what.heads.window)) {}

  std::size_t scratch_bytes() const override {
    return rounded_up(plan_.workspace_bytes()) + delta_bytes() + sums_bytes();
  }

  void run(const AttentionPointers& at, void* scratch, cudaStream_t stream) override {
    must_cudnn(cudnnSetStream(handle_->get(), stream), "cudnnSetStream");
    plan_.run(handle_->get(), bindings(at, static_cast<char*>(scratch)), scratch);
  }

 private:
  std::size_t floats(std::int64_t each) const {
    const auto& h = what_.heads;
    return rounded_up(static_cast<std::size_t>(h.batch * h.heads * h.sequence * each) *
                      sizeof(float));
  }
  std::size_t delta_bytes() const { return what_.backward ? floats(1) : 0; }
  std::size_t sums_bytes() const {
    return what_.backward && !what_.repeatable ? floats(what_.heads.dim) : 0;
  }
  std::vector<CudnnPlan::Binding> bindings(const AttentionPointers& at, char* scratch);

  AttentionCase what_;
  CudnnPlan plan_;
  std::shared_ptr<CudnnHandle> handle_;
  // The host's operands, read when a launch is enqueued.
  float scale_, window_, one_ = 1, mask_ = -std::numeric_limits<float>::infinity();
};

std::vector<CudnnPlan::Binding> CudnnAttentionPlan::bindings(const AttentionPointers& at,
                                                             char* scratch) {
  using Ids = CudnnAttentionIds;
  const auto& h = what_.heads;
  const std::int64_t element = size_of(what_.dtype);
  const std::int64_t keys = h.heads * h.dim * element, values = keys + h.kv_heads * h.dim * element;
  char* const qkv = static_cast<char*>(const_cast<void*>(at.qkv));
  std::vector<CudnnPlan::Binding> all{
      {Ids::query, qkv},  {Ids::key, qkv + keys}, {Ids::value, qkv + values}, {Ids::out, at.out},
      {Ids::lse, at.lse}, {Ids::scale, &scale_},  {Ids::mask, &mask_}};
  if (h.window > 0) all.push_back({Ids::window, &window_});
  if (!what_.backward) return all;
  char* const dqkv = static_cast<char*>(at.dqkv);
  char* const delta = scratch + rounded_up(plan_.workspace_bytes());
  for (const CudnnPlan::Binding& b : {CudnnPlan::Binding{Ids::one, &one_},
                                      {Ids::dout, const_cast<void*>(at.dout)},
                                      {Ids::dquery, dqkv},
                                      {Ids::dkey, dqkv + keys},
                                      {Ids::dvalue, dqkv + values},
                                      {Ids::delta, delta}})
    all.push_back(b);
  if (!what_.repeatable) all.push_back({Ids::dquery_sums, delta + delta_bytes()});
  return all;
}

class CudnnAttentionPlans final : public AttentionPlans {
 public:
  explicit CudnnAttentionPlans(std::int32_t device)
      : device_(cudnn_device(device)), handle_(std::make_shared<CudnnHandle>()) {}
  std::unique_ptr<AttentionPlan> make(const AttentionCase& what) override {
    return std::make_unique<CudnnAttentionPlan>(what, device_, handle_);
  }

 private:
  CudnnDescriptor device_;
  std::shared_ptr<CudnnHandle> handle_;
};

}  // namespace

std::unique_ptr<AttentionPlans> cudnn_attention_plans() {
  const std::size_t version = cudnnGetVersion();
  if (version < kOldestVersion)
    throw CudaError(fmt::format("cuDNN {}.{}.{} is older than 9.16", version / 10000,
                                version / 100 % 100, version % 100));
  int device = 0;
  require(cudaGetDevice(&device), "cudaGetDevice");
  return std::make_unique<CudnnAttentionPlans>(device);
}

}  // namespace trainyard
