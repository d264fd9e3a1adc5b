// SPDX-License-Identifier: Apache-2.0
//
// Devices, their properties, contexts, and names of errors. The devices look like an H100.
#include "devices.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>

#include "calls.h"
#include "libraries.h"
#include "memory.h"
#include "say.h"
#include "scheduler.h"
#include "settings.h"

namespace fakecuda {
namespace {

constexpr int compute_major = 9;
constexpr int compute_minor = 0;
constexpr int version = CUDART_VERSION;

thread_local int device_of_thread = 0;
// For each context that was pushed, the device that was current before.
thread_local int pushed[64];
thread_local int pushed_count = 0;

struct Context {
  bool made = false;
};
Context contexts[max_devices];

int device_of(CUcontext context) {
  return static_cast<int>(reinterpret_cast<Context*>(context) - contexts);
}

/// Attributes that a test has set.
std::map<int, int>& set_attributes() {
  static auto* attributes = new std::map<int, int>;
  return *attributes;
}

/// CUDA's two enumerations of attributes have the same numbers.
int attribute(int which, int device) {
  if (const auto set = set_attributes().find(which); set != set_attributes().end()) {
    return set->second;
  }
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      return 1024;
    case cudaDevAttrMaxBlockDimZ:
      return 64;
    case cudaDevAttrMaxGridDimX:
      return 0x7fffffff;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return 49152;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return 232448;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return 233472;
    case cudaDevAttrTotalConstantMemory:
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return 65536;
    case cudaDevAttrWarpSize:
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return 32;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return 2048;
    case cudaDevAttrMultiProcessorCount:
      return 132;
    case cudaDevAttrTextureAlignment:
      return 512;
    case cudaDevAttrL2CacheSize:
      return 50 << 20;
    case cudaDevAttrGlobalMemoryBusWidth:
      return 5120;
    case cudaDevAttrComputeCapabilityMajor:
      return compute_major;
    case cudaDevAttrComputeCapabilityMinor:
      return compute_minor;
    case cudaDevAttrPciBusId:
      return 1 + device;
    case cudaDevAttrAsyncEngineCount:
      return 3;
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrStreamPrioritiesSupported:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
      return 1;
    default:
      return 0;
  }
}

const char* error_text(int error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInitializationError:
      return "initialization error";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorAssert:
      return "device-side assert triggered";
    case cudaErrorNotSupported:
      return "operation not supported";
    case cudaErrorInvalidDeviceFunction:
      return "invalid device function";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    default:
      return "an error of the fake CUDA runtime";
  }
}

}  // namespace

bool has(CUdevice_attribute which) {
  return attribute(which, 0) != 0;
}

int most_shared_bytes() {
  return attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
}

int current_device() {
  return device_of_thread;
}

bool is_device(int device) {
  return device >= 0 && device < settings().devices;
}

CUcontext context_of(int device) {
  return reinterpret_cast<CUcontext>(&contexts[device]);
}

void make_context() {
  contexts[device_of_thread].made = true;
}

}  // namespace fakecuda

using namespace fakecuda;

FAKECUDA_API cudaError_t cudaGetDeviceCount(int* count) {
  load_libraries();
  FAKECUDA_QUERY(cudaGetDeviceCount);
  *count = settings().devices;
  return *count > 0 ? cudaSuccess : returned(cudaErrorNoDevice);
}
FAKECUDA_API cudaError_t cudaGetDevice(int* device) {
  FAKECUDA_QUERY(cudaGetDevice);
  *device = device_of_thread;
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaSetDevice(int device) {
  FAKECUDA_QUERY(cudaSetDevice, "%d", device);
  if (!is_device(device)) return returned(cudaErrorInvalidDevice);
  device_of_thread = device;
  make_context();  // since CUDA 12
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  FAKECUDA_QUERY(cudaGetDeviceProperties, "%d", device);
  if (!is_device(device)) return returned(cudaErrorInvalidDevice);
  const auto get = [&](cudaDeviceAttr which) { return attribute(which, device); };
  std::memset(p, 0, sizeof *p);
  std::snprintf(p->name, sizeof p->name, "Fake CUDA Device");
  std::memset(&p->uuid, 0xfa, sizeof p->uuid);
  p->uuid.bytes[15] = static_cast<char>(device);
  p->totalGlobalMem = memory_limit();
  p->sharedMemPerBlock = static_cast<std::size_t>(get(cudaDevAttrMaxSharedMemoryPerBlock));
  p->regsPerBlock = get(cudaDevAttrMaxRegistersPerBlock);
  p->warpSize = get(cudaDevAttrWarpSize);
  p->maxThreadsPerBlock = get(cudaDevAttrMaxThreadsPerBlock);
  p->maxThreadsDim[0] = get(cudaDevAttrMaxBlockDimX);
  p->maxThreadsDim[1] = get(cudaDevAttrMaxBlockDimY);
  p->maxThreadsDim[2] = get(cudaDevAttrMaxBlockDimZ);
  p->maxGridSize[0] = get(cudaDevAttrMaxGridDimX);
  p->maxGridSize[1] = get(cudaDevAttrMaxGridDimY);
  p->maxGridSize[2] = get(cudaDevAttrMaxGridDimZ);
  p->totalConstMem = static_cast<std::size_t>(get(cudaDevAttrTotalConstantMemory));
  p->major = compute_major;
  p->minor = compute_minor;
  p->multiProcessorCount = get(cudaDevAttrMultiProcessorCount);
  p->concurrentKernels = 1;
  p->textureAlignment = static_cast<std::size_t>(get(cudaDevAttrTextureAlignment));
  p->pciBusID = get(cudaDevAttrPciBusId);
  p->asyncEngineCount = get(cudaDevAttrAsyncEngineCount);
  p->unifiedAddressing = 1;
  p->memoryBusWidth = get(cudaDevAttrGlobalMemoryBusWidth);
  p->l2CacheSize = get(cudaDevAttrL2CacheSize);
  p->maxThreadsPerMultiProcessor = get(cudaDevAttrMaxThreadsPerMultiProcessor);
  p->sharedMemPerMultiprocessor =
      static_cast<std::size_t>(get(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
  p->regsPerMultiprocessor = get(cudaDevAttrMaxRegistersPerMultiprocessor);
  p->managedMemory = 1;
  p->sharedMemPerBlockOptin =
      static_cast<std::size_t>(get(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  p->maxBlocksPerMultiProcessor = get(cudaDevAttrMaxBlocksPerMultiprocessor);
  p->canMapHostMemory = 1;
  p->cooperativeLaunch = 1;
  p->hostRegisterSupported = 1;
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  FAKECUDA_QUERY(cudaDeviceGetAttribute, "%d %d", static_cast<int>(which), device);
  if (!is_device(device)) return returned(cudaErrorInvalidDevice);
  *value = attribute(which, device);
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaDeviceGetPCIBusId(char* out, int bytes, int device) {
  FAKECUDA_QUERY(cudaDeviceGetPCIBusId);
  std::snprintf(out, static_cast<std::size_t>(bytes), "0000:%02x:00.0", 1 + device);
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  FAKECUDA_QUERY(cudaDeviceGetStreamPriorityRange);
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaDeviceSynchronize() {
  FAKECUDA_RUNTIME(cudaDeviceSynchronize);
  host_waits(site);
  finish_device(device_of_thread);
  return cudaSuccess;
}
// Off unless a test asks for it: kernels that read another device's memory would run in a wrong
// order (docs/fakecuda.md). Copies run in the right order.
namespace {
std::atomic<bool> peers{false};
}  // namespace
FAKECUDA_API void fakecuda_set_peers(int on) {
  peers = on != 0;
}
FAKECUDA_API void fakecuda_set_attribute(int which, int value) {
  const Guard guard(global_lock());
  set_attributes()[which] = value;
}
FAKECUDA_API int fakecuda_has_context(int device) {
  const Guard guard(global_lock());
  return is_device(device) && contexts[device].made ? 1 : 0;
}
FAKECUDA_API cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  FAKECUDA_QUERY(cudaDeviceCanAccessPeer, "%d %d", device, peer);
  *can = peers && device != peer ? 1 : 0;
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaDeviceEnablePeerAccess(int device, unsigned) {
  FAKECUDA_RUNTIME(cudaDeviceEnablePeerAccess, "%d", device);
  return returned(peers ? cudaSuccess : cudaErrorPeerAccessUnsupported);
}
FAKECUDA_API cudaError_t cudaDriverGetVersion(int* out) {
  FAKECUDA_QUERY(cudaDriverGetVersion);
  *out = version;
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaRuntimeGetVersion(int* out) {
  FAKECUDA_QUERY(cudaRuntimeGetVersion);
  *out = version;
  return cudaSuccess;
}
FAKECUDA_API const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess                 ? "cudaSuccess"
         : error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
                                              : "cudaErrorFake";
}
FAKECUDA_API const char* cudaGetErrorString(cudaError_t error) {
  return error_text(error);
}
FAKECUDA_API cudaError_t cudaProfilerStart() {
  FAKECUDA_RUNTIME(cudaProfilerStart);
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaProfilerStop() {
  FAKECUDA_RUNTIME(cudaProfilerStop);
  return cudaSuccess;
}

// Functions of the driver.

FAKECUDA_API CUresult cuInit(unsigned) {
  FAKECUDA_DRIVER(cuInit);
  return settings().devices > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
FAKECUDA_API CUresult cuDriverGetVersion(int* out) {
  *out = version;
  return CUDA_SUCCESS;
}
FAKECUDA_API CUresult cuDeviceGetCount(int* count) {
  FAKECUDA_DRIVER(cuDeviceGetCount);
  *count = settings().devices;
  return CUDA_SUCCESS;
}
FAKECUDA_API CUresult cuDeviceGet(CUdevice* out, int device) {
  FAKECUDA_DRIVER(cuDeviceGet, "%d", device);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *out = device;
  return CUDA_SUCCESS;
}
FAKECUDA_API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  FAKECUDA_DRIVER(cuDeviceGetAttribute, "%d %d", static_cast<int>(which), device);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *value = attribute(which, device);
  return CUDA_SUCCESS;
}
FAKECUDA_API CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice device) {
  FAKECUDA_DRIVER(cuDeviceTotalMem_v2, "%d", device);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = memory_limit();
  return CUDA_SUCCESS;
}
FAKECUDA_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  FAKECUDA_DRIVER(cuDevicePrimaryCtxGetState, "%d", device);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (flags != nullptr) *flags = 0;
  if (active != nullptr) *active = contexts[device].made ? 1 : 0;
  return CUDA_SUCCESS;
}
FAKECUDA_API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  FAKECUDA_DRIVER(cuDevicePrimaryCtxRetain, "%d", device);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *context = context_of(device);
  contexts[device].made = true;
  return CUDA_SUCCESS;
}
FAKECUDA_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
  FAKECUDA_DRIVER(cuDevicePrimaryCtxRelease_v2);
  return CUDA_SUCCESS;
}
FAKECUDA_API CUresult cuCtxGetCurrent(CUcontext* context) {
  FAKECUDA_DRIVER(cuCtxGetCurrent);
  *context = contexts[device_of_thread].made ? context_of(device_of_thread) : nullptr;
  return CUDA_SUCCESS;
}
FAKECUDA_API CUresult cuCtxSetCurrent(CUcontext context) {
  FAKECUDA_DRIVER(cuCtxSetCurrent);
  if (context != nullptr) device_of_thread = device_of(context);
  return CUDA_SUCCESS;
}
FAKECUDA_API CUresult cuCtxPushCurrent_v2(CUcontext context) {
  FAKECUDA_DRIVER(cuCtxPushCurrent_v2);
  if (pushed_count == 64) return CUDA_ERROR_OUT_OF_MEMORY;
  pushed[pushed_count++] = device_of_thread;
  device_of_thread = device_of(context);
  return CUDA_SUCCESS;
}
FAKECUDA_API CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  FAKECUDA_DRIVER(cuCtxPopCurrent_v2);
  if (pushed_count == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = context_of(device_of_thread);
  device_of_thread = pushed[--pushed_count];
  return CUDA_SUCCESS;
}
FAKECUDA_API CUresult cuCtxGetDevice(CUdevice* device) {
  FAKECUDA_DRIVER(cuCtxGetDevice);
  *device = device_of_thread;
  return CUDA_SUCCESS;
}
FAKECUDA_API CUresult cuCtxSynchronize() {
  FAKECUDA_DRIVER(cuCtxSynchronize);
  host_waits(site);
  finish_device(device_of_thread);
  return CUDA_SUCCESS;
}
FAKECUDA_API CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error_text(error);
  return CUDA_SUCCESS;
}
FAKECUDA_API CUresult cuGetErrorName(CUresult error, const char** text) {
  *text = error == CUDA_SUCCESS               ? "CUDA_SUCCESS"
          : error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                              : "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}
