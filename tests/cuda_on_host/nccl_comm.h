#pragma once
#include <nccl.h>

#include <cstddef>
#include <memory>
#include <thread>

#include "tests/cuda_on_host/nccl_links.h"

// Calls in flight keep the links alive after the communicator is gone.
struct ncclComm {
  std::shared_ptr<trainyard::cuda_on_host::Links> links;
  std::thread starting;
  // Times that the latest call is still being launched when its state is asked for.
  int launching = 0;
};

namespace trainyard::cuda_on_host {

// Memory that is registered with some communicator now.
int nccl_registrations();
bool is_registered(const void* at, std::size_t bytes);
// Fails the calling thread's device unless the communicator, which ends, has none left.
void expect_deregistered(ncclComm_t comm);

}  // namespace trainyard::cuda_on_host
