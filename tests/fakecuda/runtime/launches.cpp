// SPDX-License-Identifier: Apache-2.0
//
// Functions that nvcc's host code calls: registration of kernels and variables, and launches. A
// kernel that fakecuda_add_kernels knows becomes work of its stream; others only count as faults.
#include "launches.h"

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "calls.h"
#include "devices.h"
#include "memory.h"
#include "say.h"
#include "scheduler.h"
#include "settings.h"

namespace fakecuda {
namespace {

constexpr int default_shared_bytes = 48 << 10;
constexpr std::size_t kernels_per_page = 16;

/// A kernel that is loaded onto a device.
struct Loaded {
  int shared_bytes = default_shared_bytes;  ///< dynamic shared memory that launches may have
};

struct State {
  std::map<const void*, Loaded> loaded[max_devices];
  // Names live as long as the libraries that register them.
  std::unordered_map<const void*, const char*> kernels;
  std::unordered_map<const void*, void*> variables;
  std::vector<fakecuda_kernels> implementations;
  std::set<std::string> told;
  std::uint64_t launches = 0;
  std::uint64_t skipped = 0;
};
State& state() {
  static auto* s = new State;  // used by constructors and destructors of statics
  return *s;
}

struct Configuration {
  dim3 grid, block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

const char* name_of(const void* function) {
  const auto at = state().kernels.find(function);
  return at == state().kernels.end() ? "a kernel that was never registered" : at->second;
}

/// Loads a kernel onto the current device, unless it is loaded already. As with CUDA that takes
/// device memory, and the host waits for the device.
cudaError_t load(const void* function, CallSite& site) {
  auto& loaded = state().loaded[current_device()];
  if (loaded.contains(function)) return cudaSuccess;
  if (loaded.size() % kernels_per_page == 0 && !take_memory(current_device(), page_bytes)) {
    return cudaErrorMemoryAllocation;
  }
  host_waits(site);
  may_synchronize(site);
  finish_device(current_device());
  loaded[function] = {};
  return cudaSuccess;
}

cudaError_t launch(const void* function, const Configuration& c, void** arguments, CallSite& site) {
  State& s = state();
  ++s.launches;
  fakecuda_launch wanted = {};
  wanted.name = name_of(function);
  wanted.grid[0] = c.grid.x, wanted.grid[1] = c.grid.y, wanted.grid[2] = c.grid.z;
  wanted.block[0] = c.block.x, wanted.block[1] = c.block.y, wanted.block[2] = c.block.z;
  wanted.shared_bytes = c.shared_bytes;
  wanted.arguments = arguments;
  for (const fakecuda_kernels find : s.implementations) {
    if (find(&wanted) == 0) continue;
    cudaError_t error = load(function, site);
    if (error == cudaSuccess &&
        c.shared_bytes >
            static_cast<std::size_t>(s.loaded[current_device()].at(function).shared_bytes)) {
      error = cudaErrorInvalidValue;
    }
    if (error != cudaSuccess) {
      wanted.destroy(wanted.context);
      return error;
    }
    fakecuda_enqueue(c.stream, wanted.name, wanted.run, wanted.destroy, wanted.context, nullptr, 0);
    return cudaSuccess;
  }
  ++s.skipped;
  if (settings().skip_unknown) return cudaSuccess;
  if (s.told.insert(wanted.name).second) {
    fault("kernel %s has no implementation on the host", wanted.name);
  }
  return cudaErrorInvalidDeviceFunction;
}

}  // namespace

void* variable_of(const void* symbol) {
  const auto at = state().variables.find(symbol);
  return at == state().variables.end() ? nullptr : at->second;
}

}  // namespace fakecuda

using namespace fakecuda;

FAKECUDA_API void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
FAKECUDA_API void __cudaRegisterFatBinaryEnd(void**) {}
FAKECUDA_API void __cudaUnregisterFatBinary(void**) {}
FAKECUDA_API char __cudaInitModule(void**) {
  return 1;
}
FAKECUDA_API void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int,
                                         uint3*, uint3*, dim3*, dim3*, int*) {
  const Guard guard(global_lock());
  state().kernels[function] = name;
}
FAKECUDA_API void __cudaRegisterVar(void**, char* symbol, char*, const char*, int,
                                    std::size_t bytes, int, int) {
  const Guard guard(global_lock());
  state().variables[symbol] = std::calloc(1, bytes);
}
FAKECUDA_API void __cudaRegisterManagedVar(void**, void** symbol, char*, const char*, int,
                                           std::size_t bytes, int, int) {
  *symbol = std::calloc(1, bytes);
}
FAKECUDA_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes,
                                                  cudaStream_t stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}
FAKECUDA_API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block,
                                                    std::size_t* shared_bytes, void* stream) {
  const Configuration c = configurations.back();
  configurations.pop_back();
  *grid = c.grid;
  *block = c.block;
  *shared_bytes = c.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}
FAKECUDA_API cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

FAKECUDA_API cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block,
                                          void** arguments, std::size_t shared_bytes,
                                          cudaStream_t stream) {
  FAKECUDA_RUNTIME(cudaLaunchKernel, "%s %u %u %p", name_of(function), grid.x, block.x,
                   static_cast<void*>(stream));
  return returned(launch(function, {grid, block, shared_bytes, stream}, arguments, site));
}
FAKECUDA_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                                            void** arguments, std::size_t shared_bytes,
                                            cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}
FAKECUDA_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* function,
                                             void** arguments) {
  return cudaLaunchKernel(function, c->gridDim, c->blockDim, arguments, c->dynamicSmemBytes,
                          c->stream);
}
FAKECUDA_API cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                                     void** arguments, std::size_t shared_bytes,
                                                     cudaStream_t stream) {
  return cudaLaunchKernel(function, grid, block, arguments, shared_bytes, stream);
}
FAKECUDA_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                               const void* function) {
  FAKECUDA_RUNTIME(cudaFuncGetAttributes, "%s", name_of(function));
  if (const cudaError_t error = load(function, site); error != cudaSuccess) return returned(error);
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion = 90;
  attributes->maxDynamicSharedSizeBytes =
      state().loaded[current_device()].at(function).shared_bytes;
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute,
                                              int value) {
  FAKECUDA_RUNTIME(cudaFuncSetAttribute, "%s %d %d", name_of(function), static_cast<int>(attribute),
                   value);
  if (const cudaError_t error = load(function, site); error != cudaSuccess) return returned(error);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || value > most_shared_bytes()) return returned(cudaErrorInvalidValue);
    state().loaded[current_device()].at(function).shared_bytes = value;
  }
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void*, int threads, std::size_t, unsigned) {
  FAKECUDA_RUNTIME(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags);
  *blocks = threads > 0 ? 2048 / threads : 1;
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*,
                                                                       int threads, std::size_t) {
  FAKECUDA_RUNTIME(cudaOccupancyMaxActiveBlocksPerMultiprocessor);
  *blocks = threads > 0 ? 2048 / threads : 1;
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  FAKECUDA_RUNTIME(cudaGetSymbolAddress);
  *address = variable_of(symbol);
  return *address != nullptr ? cudaSuccess : returned(cudaErrorInvalidSymbol);
}

FAKECUDA_API std::uint64_t fakecuda_launches() {
  const Guard guard(global_lock());
  return state().launches;
}
FAKECUDA_API std::uint64_t fakecuda_launches_skipped() {
  const Guard guard(global_lock());
  return state().skipped;
}
FAKECUDA_API void fakecuda_add_kernels(fakecuda_kernels find) {
  const Guard guard(global_lock());
  state().implementations.push_back(find);
}
