// SPDX-License-Identifier: Apache-2.0
//
// cudaMalloc, pinned memory, and attributes of pointers.
#include <cstring>

#include <sys/mman.h>

#include "calls.h"
#include "devices.h"
#include "memory.h"
#include "scheduler.h"
#include "settings.h"

namespace fakecuda {
namespace {

constexpr std::size_t host_page = 4096;

cudaError_t allocate(void** out, std::size_t bytes) {
  *out = nullptr;
  if (bytes == 0) return cudaSuccess;
  const int device = current_device();
  const std::size_t size = rounded_up(bytes, page_bytes);
  if (!take_memory(device, size)) return cudaErrorMemoryAllocation;
  const Address address = take_addresses(size, page_bytes);
  void* memory = address == 0
                     ? MAP_FAILED
                     : mmap(reinterpret_cast<void*>(address), size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (memory == MAP_FAILED) {
    if (address != 0) give_addresses(address, size);
    give_memory(device, size);
    return cudaErrorMemoryAllocation;
  }
  poison_fresh(memory, size);
  add_region({address, size, device, Kind::device});
  *out = memory;
  return cudaSuccess;
}

cudaError_t release(void* memory, CallSite& site) {
  const Region* region = find_region(memory);
  if (region == nullptr || region->kind != Kind::device ||
      region->address != reinterpret_cast<Address>(memory)) {
    return cudaErrorInvalidValue;
  }
  host_waits(site);
  finish_device(region->device);
  const Region gone = *region;
  remove_region(gone.address);
  give_memory(gone.device, gone.bytes);
  give_addresses(gone.address, gone.bytes);
  forget_shared(gone.address);
  return cudaSuccess;
}

}  // namespace
}  // namespace fakecuda

using namespace fakecuda;

FAKECUDA_API cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  FAKECUDA_RUNTIME(cudaMalloc, "%zu", bytes);
  may_synchronize(site);
  if (ends_captures()) return returned(cudaErrorStreamCaptureUnsupported);
  return returned(allocate(out, bytes));
}
FAKECUDA_API cudaError_t cudaFree(void* memory) {
  FAKECUDA_RUNTIME(cudaFree, "%p", memory);
  if (memory == nullptr) return cudaSuccess;  // torch calls this to make a context
  may_synchronize(site);
  return returned(release(memory, site));
}
FAKECUDA_API cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  FAKECUDA_RUNTIME(cudaMemGetInfo);
  const std::size_t used = memory_used_by_all(current_device());
  *total = memory_limit();
  *free = *total > used ? *total - used : 0;
  return cudaSuccess;
}
FAKECUDA_API CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  FAKECUDA_DRIVER(cuMemGetInfo_v2);
  return static_cast<CUresult>(cudaMemGetInfo(free, total));
}
FAKECUDA_API cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned) {
  FAKECUDA_RUNTIME(cudaHostAlloc, "%zu", bytes);
  may_synchronize(site);
  if (ends_captures()) return returned(cudaErrorStreamCaptureUnsupported);
  const std::size_t size = rounded_up(bytes == 0 ? 1 : bytes, host_page);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return returned(cudaErrorMemoryAllocation);
  add_region({reinterpret_cast<Address>(memory), size, current_device(), Kind::pinned});
  *out = memory;
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaFreeHost(void* memory) {
  FAKECUDA_RUNTIME(cudaFreeHost, "%p", memory);
  if (memory == nullptr) return cudaSuccess;
  may_synchronize(site);
  const Region* region = find_region(memory);
  if (region == nullptr || region->kind != Kind::pinned || !region->ours ||
      region->address != reinterpret_cast<Address>(memory)) {
    return returned(cudaErrorInvalidValue);
  }
  host_waits(site);
  for (int device = 0; device < settings().devices; ++device) finish_device(device);
  const std::size_t bytes = region->bytes;
  remove_region(region->address);
  munmap(memory, bytes);
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned) {
  FAKECUDA_RUNTIME(cudaHostRegister, "%p %zu", memory, bytes);
  may_synchronize(site);
  if (find_region(memory) != nullptr) return returned(cudaErrorHostMemoryAlreadyRegistered);
  add_region({reinterpret_cast<Address>(memory), bytes, current_device(), Kind::pinned, false});
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaHostUnregister(void* memory) {
  FAKECUDA_RUNTIME(cudaHostUnregister, "%p", memory);
  may_synchronize(site);
  const Region* region = find_region(memory);
  if (region == nullptr || region->kind != Kind::pinned || region->ours ||
      region->address != reinterpret_cast<Address>(memory)) {
    return returned(cudaErrorHostMemoryNotRegistered);
  }
  remove_region(region->address);
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  FAKECUDA_RUNTIME(cudaHostGetDevicePointer, "%p", host);
  *device = host;
  return cudaSuccess;
}
FAKECUDA_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                                  const void* pointer) {
  FAKECUDA_RUNTIME(cudaPointerGetAttributes, "%p", pointer);
  std::memset(attributes, 0, sizeof *attributes);
  const Region* region = find_region(pointer);
  if (region == nullptr) {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -1;
    attributes->hostPointer = const_cast<void*>(pointer);
    return cudaSuccess;
  }
  const bool pinned = region->kind == Kind::pinned;
  attributes->type = pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  attributes->device = region->device;
  attributes->devicePointer = const_cast<void*>(pointer);
  attributes->hostPointer = pinned ? const_cast<void*>(pointer) : nullptr;
  return cudaSuccess;
}
FAKECUDA_API CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute,
                                            CUdeviceptr pointer) {
  FAKECUDA_DRIVER(cuPointerGetAttribute, "%d", static_cast<int>(attribute));
  const Region* region = find_region(reinterpret_cast<const void*>(pointer));
  if (region == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(out) = region->device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<CUmemorytype*>(out) =
          region->kind == Kind::pinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}
FAKECUDA_API CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* bytes,
                                              CUdeviceptr pointer) {
  FAKECUDA_DRIVER(cuMemGetAddressRange_v2);
  const Region* region = find_region(reinterpret_cast<const void*>(pointer));
  if (region == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = region->address;
  if (bytes != nullptr) *bytes = region->bytes;
  return CUDA_SUCCESS;
}
