#pragma once
#include <cuda_runtime_api.h>

#include "tests/cuda_on_host/device.h"
#include "tests/cuda_on_host/launch.h"
