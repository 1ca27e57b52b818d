#pragma once
#include <cstddef>
#include <cstdint>

namespace trainyard::cuda_on_host {

// What the process pretends to run on. Read at the first call from the variable CUDA_ON_HOST, such
// as "devices=2 memory=1048576 slow_stream=3"; tests may change it before the calls it affects.
struct Machine {
  int devices = 8;
  std::size_t memory = std::size_t{4} << 30;  // of each device
  int driver = 13000, runtime = 13000, nccl = 22800;
  // The stream created as number `slow_stream` (counted from 0 in each device) starts every piece
  // of work `slow_us` later than it could, so that those who should wait for it and do not go
  // ahead.
  int slow_stream = -1, slow_us = 200;
  // false: work is given to streams, and what it would wait for is known (order_log.h), but none of
  // it is done.
  bool works = true;
  // NCCL calls on the device (-1: on any) until one fails or never ends; 0: none does.
  int failing_call = 0, hanging_call = 0, faulty_device = -1;
  // How often a communicator that does not block is asked before a call on it is launched.
  int launch_polls = 2;
  // Whether NCCL has memory of its own to give, and can use the user's without a copy.
  bool nccl_memory = true, nccl_registers = true;
};
Machine& machine();

}  // namespace trainyard::cuda_on_host
