// SPDX-License-Identifier: Apache-2.0
//
// Looks up the driver's functions by name. Programs get the version of the CUDA that the fake is
// built with, which is the newest that it has.
#include <string>

#include <dlfcn.h>

#include "calls.h"
#include "say.h"

using namespace fakecuda;

namespace {

void* find(const char* name) {
  static void* const self = [] {
    Dl_info here{};
    dladdr(reinterpret_cast<void*>(&find), &here);
    return dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  for (const char* version : {"_v4", "_v3", "_v2", ""}) {
    if (void* function = dlsym(self, (std::string(name) + version).c_str())) return function;
  }
  fault("no driver function %s", name);
  return nullptr;
}

}  // namespace

FAKECUDA_API cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                                          unsigned, unsigned long long,
                                                          cudaDriverEntryPointQueryResult* result) {
  FAKECUDA_QUERY(cudaGetDriverEntryPointByVersion, "%s", name);
  *function = find(name);
  if (result != nullptr) {
    *result =
        *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  }
  return cudaSuccess;
}

// Called by libraries with a CUDA runtime of their own, such as cuBLAS. They look up hundreds of
// functions, to launch kernels that the fake does not have.
FAKECUDA_API CUresult cuGetProcAddress_v2(const char*, void** function, int, cuuint64_t,
                                          CUdriverProcAddressQueryResult* result) {
  FAKECUDA_DRIVER(cuGetProcAddress_v2);
  static bool told = false;
  if (!told) fault("a library with a CUDA runtime of its own (cuBLAS?) is not represented");
  told = true;
  *function = nullptr;
  if (result != nullptr) *result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_ERROR_NOT_FOUND;
}
