// SPDX-License-Identifier: Apache-2.0
//
// Functions that torch imports or asks for and the fake does not represent. They fail and report
// their names. CUDA's headers are not included: their declarations have other signatures.
#include "unrepresented.h"

#define FAKECUDA_UNREPRESENTED(function)                             \
  extern "C" __attribute__((visibility("default"))) int function() { \
    return fakecuda::not_represented(#function);                     \
  }

// Memory pools of the driver (the allocator backend cudaMallocAsync).
FAKECUDA_UNREPRESENTED(cudaMallocAsync)
FAKECUDA_UNREPRESENTED(cudaFreeAsync)
FAKECUDA_UNREPRESENTED(cudaDeviceGetDefaultMemPool)
FAKECUDA_UNREPRESENTED(cudaMemPoolGetAttribute)
FAKECUDA_UNREPRESENTED(cudaMemPoolSetAttribute)
FAKECUDA_UNREPRESENTED(cudaMemPoolSetAccess)
FAKECUDA_UNREPRESENTED(cudaMemPoolTrimTo)

// Between devices.
FAKECUDA_UNREPRESENTED(cuMulticastCreate)
FAKECUDA_UNREPRESENTED(cuMulticastAddDevice)
FAKECUDA_UNREPRESENTED(cuMulticastBindMem)
FAKECUDA_UNREPRESENTED(cuMulticastUnbind)

// Parts of devices.
FAKECUDA_UNREPRESENTED(cuCtxFromGreenCtx)
FAKECUDA_UNREPRESENTED(cuDevResourceGenerateDesc)
FAKECUDA_UNREPRESENTED(cuDevSmResourceSplitByCount)
FAKECUDA_UNREPRESENTED(cuDeviceGetDevResource)
FAKECUDA_UNREPRESENTED(cuGreenCtxCreate)
FAKECUDA_UNREPRESENTED(cuGreenCtxDestroy)
FAKECUDA_UNREPRESENTED(cuGreenCtxStreamCreate)

// Kernels compiled at run time.
FAKECUDA_UNREPRESENTED(cuFuncGetAttribute)
FAKECUDA_UNREPRESENTED(cuFuncSetAttribute)
FAKECUDA_UNREPRESENTED(cuFuncSetCacheConfig)
FAKECUDA_UNREPRESENTED(cuLaunchKernel)
FAKECUDA_UNREPRESENTED(cuLaunchKernelEx)
FAKECUDA_UNREPRESENTED(cuLaunchCooperativeKernel)
FAKECUDA_UNREPRESENTED(cuLinkAddData_v2)
FAKECUDA_UNREPRESENTED(cuLinkComplete)
FAKECUDA_UNREPRESENTED(cuLinkCreate_v2)
FAKECUDA_UNREPRESENTED(cuModuleGetFunction)
FAKECUDA_UNREPRESENTED(cuModuleLoad)
FAKECUDA_UNREPRESENTED(cuModuleLoadData)
FAKECUDA_UNREPRESENTED(cuModuleLoadDataEx)
FAKECUDA_UNREPRESENTED(cuModuleUnload)
FAKECUDA_UNREPRESENTED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
FAKECUDA_UNREPRESENTED(cuTensorMapEncodeTiled)
