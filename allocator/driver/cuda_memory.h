// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <cuda.h>

#include "allocator/driver/driver.h"

/// Shared by the CUDA backends: the CUDA driver's virtual memory functions, however a backend finds
/// them. Needs CUDA's headers.
namespace cinch::allocator {

struct CudaMemory {
  decltype(&::cuDeviceGet) device_get;
  decltype(&::cuDeviceGetAttribute) device_get_attribute;
  decltype(&::cuMemGetAllocationGranularity) granularity;
  decltype(&::cuMemAddressReserve) reserve;
  decltype(&::cuMemAddressFree) unreserve;
  decltype(&::cuMemCreate) create;
  decltype(&::cuMemRelease) release;
  decltype(&::cuMemMap) map;
  decltype(&::cuMemUnmap) unmap;
  decltype(&::cuMemSetAccess) set_access;

  /// Sets all functions by `find_one(name, function)`, whose false result ends the search.
  template <class FindOne>
  bool find(const FindOne& find_one) {
    return find_one("cuDeviceGet", device_get) &&
           find_one("cuDeviceGetAttribute", device_get_attribute) &&
           find_one("cuMemGetAllocationGranularity", granularity) &&
           find_one("cuMemAddressReserve", reserve) && find_one("cuMemAddressFree", unreserve) &&
           find_one("cuMemCreate", create) && find_one("cuMemRelease", release) &&
           find_one("cuMemMap", map) && find_one("cuMemUnmap", unmap) &&
           find_one("cuMemSetAccess", set_access);
  }
};

/// A backend's functions (a CudaMemory and whatever else it needs), or why they are missing.
template <class Functions>
struct FoundFunctions {
  Functions table{};
  std::string fault;

  /// The functions, or null; sets `why` to the fault.
  const Functions* get(std::string& why) const {
    why = fault;
    return fault.empty() ? &table : nullptr;
  }
};

inline CUmemAllocationProp device_memory(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

inline Status status_of(CUresult result) {
  switch (result) {
    case CUDA_SUCCESS:
      return Status::ok;
    case CUDA_ERROR_NOT_READY:
      return Status::not_ready;
    case CUDA_ERROR_OUT_OF_MEMORY:
      return Status::out_of_memory;
    default:
      return Status::failed;
  }
}

/// The driver calls that all CUDA backends share. `Calls`, which derives from it, must have
/// `Current`, constructed from `self`, which makes the device current for a scope and converts to
/// whether it is; and `functions()`, which returns a CudaMemory.
template <class Calls>
struct CudaMemoryCalls {
  static Status reserve(void* self, std::size_t bytes, Address* address) {
    const typename Calls::Current current(self);
    if (!current) return Status::failed;
    CUdeviceptr pointer = 0;
    const CUresult result = Calls::functions().reserve(&pointer, bytes, 0, 0, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return Status::out_of_addresses;
    if (result == CUDA_SUCCESS) *address = pointer;
    return status_of(result);
  }
  static Status unreserve(void* self, Address address, std::size_t bytes) {
    const typename Calls::Current current(self);
    return current ? status_of(Calls::functions().unreserve(address, bytes)) : Status::failed;
  }
  static Status release(void* self, Handle handle) {
    const typename Calls::Current current(self);
    return current ? status_of(Calls::functions().release(handle)) : Status::failed;
  }
  static Status map(void* self, Address address, std::size_t bytes, Handle handle) {
    const typename Calls::Current current(self);
    return current ? status_of(Calls::functions().map(address, bytes, 0, handle, 0))
                   : Status::failed;
  }
  static Status unmap(void* self, Address address, std::size_t bytes, Handle) {
    const typename Calls::Current current(self);
    return current ? status_of(Calls::functions().unmap(address, bytes)) : Status::failed;
  }
};

}  // namespace cinch::allocator
