#pragma once
#include <nccl.h>

#include <cstddef>
#include <span>

namespace trainyard::cuda_on_host {

std::size_t size_of(ncclDataType_t type);

// Element by element over all terms in their order, 16-bit numbers in fp32 and rounded once.
void reduce(std::span<const std::span<std::byte>> terms, ncclDataType_t type, ncclRedOp_t op,
            std::span<std::byte> to);

}  // namespace trainyard::cuda_on_host
