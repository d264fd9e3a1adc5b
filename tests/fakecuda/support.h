// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "fakecuda.h"

// Called by the host code that nvcc generates. No header declares it.
extern "C" void __cudaRegisterFunction(void** handle, const char* function, char* device_function,
                                       const char* name, int thread_limit, uint3* thread,
                                       uint3* block, dim3* block_size, dim3* grid_size,
                                       int* warp_size);
