#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/cuda_on_host/machine.h"
#include "tests/cuda_on_host/stream.h"

// What the stand-in for the CUDA runtime must do for tests of the backend to mean anything.
namespace trainyard::cuda_on_host {
namespace {

struct Streams {
  Streams() {
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  }
  ~Streams() {
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
    cudaEventDestroy(event);
  }
  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t event = nullptr;
};

void rest() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

TEST(ThreadCudaStandIn, StreamsRunBesideEachOtherUnlessAnEventOrdersThem) {
  Streams s;
  std::atomic<int> done{0};
  int seen_without = -1, seen_with = -1;
  enqueue(s.a, [&] {
    rest();
    done = 1;
  });
  enqueue(s.b, [&] { seen_without = done; });
  cudaEventRecord(s.event, s.a);
  cudaStreamWaitEvent(s.b, s.event);
  enqueue(s.b, [&] { seen_with = done; });
  EXPECT_EQ(cudaStreamQuery(s.a), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamSynchronize(s.b), cudaSuccess);
  EXPECT_EQ(seen_without, 0);
  EXPECT_EQ(seen_with, 1);
}

TEST(ThreadCudaStandIn, MemoryIsFreedWhenAllWorkOfTheDeviceHasEnded) {
  Streams s;
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
  std::atomic<bool> done{false};
  enqueue(s.a, [&] {
    rest();
    done = true;
  });
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_TRUE(done);
}

// Messages of a pipeline of four stages overtook each other: the backend uses its events again.
TEST(ThreadCudaStandIn, AnEventThatIsRecordedAnewStillHoldsBackWhoWaitedBefore) {
  Streams s;
  std::atomic<int> done{0};
  int seen = -1;
  enqueue(s.a, [&] {
    rest();
    done = 1;
  });
  cudaEventRecord(s.event, s.a);
  cudaStreamWaitEvent(s.b, s.event);
  Streams idle;
  cudaEventRecord(s.event, idle.a);
  EXPECT_EQ(cudaStreamSynchronize(idle.a), cudaSuccess);
  enqueue(s.b, [&] { seen = done; });
  EXPECT_EQ(cudaStreamSynchronize(s.b), cudaSuccess);
  EXPECT_EQ(seen, 1);
}

TEST(ThreadCudaStandIn, MemoryStartsAsNoNumberAndItsMarginsAreWatched) {
  ASSERT_EQ(cudaSetDevice(6), cudaSuccess);
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 10), cudaSuccess);
  std::vector<unsigned char> bytes(10);
  EXPECT_EQ(cudaMemcpy(bytes.data(), memory, 11, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(bytes.data(), memory, 10, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(bytes, std::vector<unsigned char>(10, 0xff));
  static_cast<unsigned char*>(memory)[10] = 0;
  EXPECT_EQ(cudaFree(memory), cudaErrorIllegalAddress);
  EXPECT_NE(device_problem(), "");
  cudaSetDevice(0);
}

TEST(ThreadCudaStandIn, CopiesAreAsynchronousFromPinnedMemoryOnly) {
  Streams s;
  void *memory = nullptr, *pinned = nullptr;
  int pageable = 5;
  ASSERT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, 4), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(memory, &pageable, 4, cudaMemcpyHostToDevice, s.a),
            cudaErrorInvalidValue);
  std::memcpy(pinned, &pageable, 4);
  EXPECT_EQ(cudaMemcpyAsync(memory, pinned, 4, cudaMemcpyHostToDevice, s.a), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(s.a), cudaSuccess);
  int back = 0;
  EXPECT_EQ(cudaMemcpy(&back, memory, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back, 5);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST(ThreadCudaStandIn, AGraphRepeatsItsWorkInTheOrderOfItsEvents) {
  Streams s;
  std::vector<int> order;
  ASSERT_EQ(cudaStreamBeginCapture(s.a, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  enqueue(s.a, [&] { order.push_back(1); });
  cudaEventRecord(s.event, s.a);
  cudaStreamWaitEvent(s.b, s.event);
  enqueue(s.b, [&] { order.push_back(2); });
  cudaEventRecord(s.event, s.b);
  cudaStreamWaitEvent(s.a, s.event);
  enqueue(s.a, [&] { order.push_back(3); });
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(s.a, &graph), cudaSuccess);
  EXPECT_TRUE(order.empty());
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cudaGraphLaunch(exec, s.a), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(s.a), cudaSuccess);
  EXPECT_EQ(order, (std::vector{1, 2, 3, 1, 2, 3}));
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

TEST(ThreadCudaStandIn, ACaptureEndsWithErrorsWhereCudasDoes) {
  Streams s;
  cudaGraph_t graph = nullptr;
  const auto begin = [&] { cudaStreamBeginCapture(s.a, cudaStreamCaptureModeThreadLocal); };
  begin();
  cudaEventRecord(s.event, s.a);
  cudaStreamWaitEvent(s.b, s.event);
  enqueue(s.b, [] {});
  EXPECT_EQ(cudaStreamEndCapture(s.a, &graph), cudaErrorStreamCaptureUnjoined);

  cudaEventRecord(s.event, s.b);  // outside
  begin();
  EXPECT_EQ(cudaStreamWaitEvent(s.a, s.event), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(cudaStreamEndCapture(s.a, &graph), cudaErrorStreamCaptureInvalidated);

  begin();
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamSynchronize(s.a), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(s.a, &graph), cudaErrorStreamCaptureInvalidated);
}

TEST(ThreadCudaStandIn, AFailureOfWorkStaysOnTheDeviceAndHoldsNobodyUp) {
  ASSERT_EQ(cudaSetDevice(7), cudaSuccess);
  {
    Streams s;
    enqueue(s.a, [] { throw std::runtime_error("beyond its memory"); });
    cudaEventRecord(s.event, s.a);
    cudaStreamWaitEvent(s.b, s.event);
    EXPECT_EQ(cudaStreamSynchronize(s.b), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaStreamSynchronize(s.a), cudaErrorLaunchFailure);
    EXPECT_EQ(device_problem(), "beyond its memory");
  }
  cudaSetDevice(0);
}

// On a device of its own, which is of no use afterwards.
TEST(NcclStandIn, MemoryThatIsRegisteredIsNotFreed) {
  constexpr int kDevice = 5;
  cudaSetDevice(kDevice);
  ncclUniqueId id{};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = nullptr;
  ncclResult_t state = ncclGetUniqueId(&id);
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInProgress);
  do ncclCommGetAsyncError(comm, &state);
  while (state == ncclInProgress);
  void *memory = nullptr, *handle = nullptr;
  ASSERT_EQ(ncclMemAlloc(&memory, 64), ncclSuccess);
  EXPECT_EQ(ncclCommRegister(comm, &state, sizeof state, &handle), ncclInvalidArgument);
  ASSERT_EQ(ncclCommRegister(comm, memory, 64, &handle), ncclSuccess);
  EXPECT_EQ(ncclMemFree(memory), ncclUnhandledCudaError);
  EXPECT_EQ(device_problem(), "memory is freed that is registered with NCCL");
  EXPECT_EQ(ncclCommDeregister(comm, handle), ncclSuccess);
  EXPECT_EQ(ncclCommDeregister(comm, handle), ncclInvalidArgument);
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  cudaSetDevice(0);
}

// cuDNN's API reference on cudnnBackendSetAttribute() and cudnnBackendFinalize().
TEST(CudnnStandIn, TakesNoAttributeOfAnotherTypeOrCountAndMissesNone) {
  cudnnBackendDescriptor_t tensor = nullptr, kind = nullptr, product = nullptr;
  cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &tensor);
  const auto set = [&](cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       std::int64_t count, const void* values) {
    return cudnnBackendSetAttribute(tensor, name, type, count, values);
  };
  const std::int64_t dims[4] = {1, 1, 8, 8}, strides[4] = {64, 64, 8, 1}, one = 1;
  const cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
  EXPECT_EQ(set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT32, 1, &one), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 2, &type),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &one), CUDNN_STATUS_SUCCESS);
  set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
  set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
  EXPECT_EQ(cudnnBackendFinalize(tensor), CUDNN_STATUS_BAD_PARAM) << "no alignment yet";
  set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &one);

  cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, &product);
  cudnnBackendCreateDescriptor(CUDNN_BACKEND_MATMUL_DESCRIPTOR, &kind);
  const auto link = [&](cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t to) {
    return cudnnBackendSetAttribute(product, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &to);
  };
  EXPECT_EQ(link(CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensor), CUDNN_STATUS_BAD_PARAM)
      << "not finalized";
  EXPECT_EQ(cudnnBackendFinalize(tensor), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &one),
            CUDNN_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(link(CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensor), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(link(CUDNN_ATTR_OPERATION_MATMUL_DESC, tensor), CUDNN_STATUS_BAD_PARAM)
      << "no matmul descriptor";
  for (cudnnBackendDescriptor_t d : {tensor, kind, product}) cudnnBackendDestroyDescriptor(d);
}

}  // namespace
}  // namespace trainyard::cuda_on_host
