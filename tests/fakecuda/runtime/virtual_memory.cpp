// SPDX-License-Identifier: Apache-2.0
//
// The driver's virtual memory management. Physical memory is a stretch of one memfd per process, so
// the same handle mapped at two addresses is the same memory, contents stay with the handle, and
// other processes can map it too.
#include <map>

#include <sys/mman.h>

#include "calls.h"
#include "devices.h"
#include "memory.h"
#include "say.h"
#include "shared_file.h"

namespace fakecuda {
namespace {

struct Physical {
  Stretch stretch;
  int references;  // counts creations, retains and mappings
  CUmemAllocationProp properties;
  bool fresh = true;  // was never accessible
};

struct Mapping {
  std::size_t bytes;
  CUmemGenericAllocationHandle handle;
  std::uint32_t devices;  // a bit for each device that has access
};

struct State {
  std::map<CUmemGenericAllocationHandle, Physical> handles;
  CUmemGenericAllocationHandle next = 0x1000;
  std::map<Address, Mapping> mappings;
};
State& state() {
  static auto* s = new State;  // used by destructors of statics
  return *s;
}

void drop(CUmemGenericAllocationHandle handle) {
  State& s = state();
  const auto at = s.handles.find(handle);
  if (--at->second.references > 0) return;
  const Physical& physical = at->second;
  // Imported memory counts in the process that made it.
  if (!physical.stretch.imported) {
    give_memory(physical.properties.location.id, physical.stretch.bytes);
  }
  give_stretch(physical.stretch);
  s.handles.erase(at);
}

void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

/// Whether the devices have what memory of these properties is to do.
bool supported(const CUmemAllocationProp& properties) {
  const bool exportable =
      properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE ||
      (properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
       has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED));
  const bool rdma = properties.allocFlags.gpuDirectRDMACapable == 0 ||
                    has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
  return exportable && rdma;
}

/// The mappings [begin, end) that make up a range. `whole`: they fill exactly this range.
struct Found {
  std::map<Address, Mapping>::iterator begin, end;
  bool whole;
};
Found mappings_of(Address address, std::size_t bytes) {
  auto& all = state().mappings;
  const auto begin = all.find(address);
  auto end = begin;
  Address at = address;
  while (end != all.end() && end->first == at && at < address + bytes) {
    at += end->second.bytes;
    ++end;
  }
  return {begin, end, bytes != 0 && at == address + bytes};
}

}  // namespace

bool mapped(Address address, std::size_t bytes, int device) {
  const std::uint32_t wanted = device < 0 ? ~0U : 1U << device;
  auto& all = state().mappings;
  auto at = all.upper_bound(address);
  if (at == all.begin()) return false;
  --at;
  Address reached = at->first;
  for (; at != all.end() && at->first == reached && (at->second.devices & wanted) != 0; ++at) {
    reached += at->second.bytes;
    if (reached >= address + bytes) return true;
  }
  return false;
}

}  // namespace fakecuda

using namespace fakecuda;

FAKECUDA_API CUresult cuMemGetAllocationGranularity(std::size_t* granularity,
                                                    const CUmemAllocationProp* properties,
                                                    CUmemAllocationGranularity_flags) {
  FAKECUDA_DRIVER(cuMemGetAllocationGranularity);
  if (!supported(*properties)) return CUDA_ERROR_NOT_SUPPORTED;
  *granularity = page_bytes;
  return CUDA_SUCCESS;
}

FAKECUDA_API CUresult cuMemAddressReserve(CUdeviceptr* out, std::size_t bytes,
                                          std::size_t alignment, CUdeviceptr, unsigned long long) {
  FAKECUDA_DRIVER(cuMemAddressReserve, "%zu", bytes);
  if (bytes == 0 || bytes % page_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  const Address address = take_addresses(bytes, alignment);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  add_region({address, bytes, current_device(), Kind::reserved});
  *out = address;
  return CUDA_SUCCESS;
}

FAKECUDA_API CUresult cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
  FAKECUDA_DRIVER(cuMemAddressFree, "%p %zu", pointer(address), bytes);
  const Region* region = find_region(pointer(address));
  if (region == nullptr || region->kind != Kind::reserved || region->address != address ||
      region->bytes != bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto inside = state().mappings.lower_bound(address);
  if (inside != state().mappings.end() && inside->first < address + bytes) {
    fault("cuMemAddressFree: %p is still mapped", pointer(inside->first));
    return CUDA_ERROR_INVALID_VALUE;
  }
  remove_region(address);
  give_addresses(address, bytes);
  return CUDA_SUCCESS;
}

FAKECUDA_API CUresult cuMemCreate(CUmemGenericAllocationHandle* out, std::size_t bytes,
                                  const CUmemAllocationProp* properties, unsigned long long) {
  FAKECUDA_DRIVER(cuMemCreate, "%zu", bytes);
  may_synchronize(site);
  if (bytes == 0 || bytes % page_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  const int device = properties->location.id;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!supported(*properties)) return CUDA_ERROR_NOT_SUPPORTED;
  if (!take_memory(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::optional<Stretch> stretch = take_stretch(bytes);
  if (!stretch) {
    give_memory(device, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  State& s = state();
  *out = s.next++;
  s.handles[*out] = {*stretch, 1, *properties};
  return CUDA_SUCCESS;
}

FAKECUDA_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  FAKECUDA_DRIVER(cuMemRelease, "%llu", handle);
  may_synchronize(site);
  if (!state().handles.contains(handle)) return CUDA_ERROR_INVALID_VALUE;
  drop(handle);
  return CUDA_SUCCESS;
}

FAKECUDA_API CUresult cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                               CUmemGenericAllocationHandle handle, unsigned long long) {
  FAKECUDA_DRIVER(cuMemMap, "%p %zu %llu", pointer(address), bytes, handle);
  may_synchronize(site);
  State& s = state();
  const Region* region = find_region(pointer(address));
  const auto at = s.handles.find(handle);
  if (region == nullptr || region->kind != Kind::reserved || at == s.handles.end() ||
      address % page_bytes != 0 || bytes == 0 || bytes % page_bytes != 0 || offset != 0 ||
      bytes > at->second.stretch.bytes || bytes > region->bytes - (address - region->address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto next = s.mappings.lower_bound(address);
  if (next != s.mappings.end() && next->first < address + bytes) return CUDA_ERROR_INVALID_VALUE;
  if (next != s.mappings.begin()) {
    --next;
    if (next->first + next->second.bytes > address) return CUDA_ERROR_INVALID_VALUE;
  }
  if (mmap(pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, at->second.stretch.file,
           static_cast<off_t>(at->second.stretch.offset)) == MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++at->second.references;
  s.mappings[address] = {bytes, handle, 0};
  return CUDA_SUCCESS;
}

FAKECUDA_API CUresult cuMemSetAccess(CUdeviceptr address, std::size_t bytes,
                                     const CUmemAccessDesc* access, std::size_t count) {
  FAKECUDA_DRIVER(cuMemSetAccess, "%p %zu", pointer(address), bytes);
  may_synchronize(site);
  const Found found = mappings_of(address, bytes);
  if (!found.whole || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_device(access[i].location.id)) return CUDA_ERROR_INVALID_DEVICE;
  }
  for (auto at = found.begin; at != found.end; ++at) {
    Mapping& mapping = at->second;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t bit = 1U << access[i].location.id;
      const bool none = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
      mapping.devices = none ? mapping.devices & ~bit : mapping.devices | bit;
    }
    const int protection = mapping.devices == 0 ? PROT_NONE : PROT_READ | PROT_WRITE;
    if (mprotect(pointer(at->first), mapping.bytes, protection) != 0) return CUDA_ERROR_UNKNOWN;
    Physical& physical = state().handles.at(mapping.handle);
    if (mapping.devices == 0 || !physical.fresh) continue;
    physical.fresh = false;
    poison_fresh(pointer(at->first), at->second.bytes);
  }
  return CUDA_SUCCESS;
}

FAKECUDA_API CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  FAKECUDA_DRIVER(cuMemUnmap, "%p %zu", pointer(address), bytes);
  may_synchronize(site);
  const Found found = mappings_of(address, bytes);
  if (!found.whole) return CUDA_ERROR_INVALID_VALUE;
  if (mmap(pointer(address), bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
    return CUDA_ERROR_UNKNOWN;
  }
  for (auto at = found.begin; at != found.end;) {
    const CUmemGenericAllocationHandle handle = at->second.handle;
    at = state().mappings.erase(at);
    drop(handle);
  }
  return CUDA_SUCCESS;
}

FAKECUDA_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* memory) {
  FAKECUDA_DRIVER(cuMemRetainAllocationHandle, "%p", memory);
  auto& all = state().mappings;
  auto at = all.upper_bound(reinterpret_cast<Address>(memory));
  if (at == all.begin()) return CUDA_ERROR_INVALID_VALUE;
  --at;
  if (reinterpret_cast<Address>(memory) - at->first >= at->second.bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ++state().handles.at(at->second.handle).references;
  *out = at->second.handle;
  return CUDA_SUCCESS;
}

FAKECUDA_API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                             CUmemGenericAllocationHandle handle) {
  FAKECUDA_DRIVER(cuMemGetAllocationPropertiesFromHandle, "%llu", handle);
  const auto at = state().handles.find(handle);
  if (at == state().handles.end()) return CUDA_ERROR_INVALID_VALUE;
  *properties = at->second.properties;
  return CUDA_SUCCESS;
}

FAKECUDA_API CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                                   CUmemAllocationHandleType type,
                                                   unsigned long long flags) {
  FAKECUDA_DRIVER(cuMemExportToShareableHandle, "%llu", handle);
  const auto at = state().handles.find(handle);
  if (at == state().handles.end() || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const CUmemAllocationProp& properties = at->second.properties;
  if ((properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int descriptor = export_stretch(at->second.stretch, properties.location.id);
  if (descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(out) = descriptor;
  return CUDA_SUCCESS;
}

FAKECUDA_API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out,
                                                     void* shared, CUmemAllocationHandleType type) {
  const int descriptor = static_cast<int>(reinterpret_cast<std::intptr_t>(shared));
  FAKECUDA_DRIVER(cuMemImportFromShareableHandle, "%d", descriptor);
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const std::optional<Stretch> stretch = import_stretch(descriptor);
  if (!stretch) return CUDA_ERROR_INVALID_VALUE;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = stretch->record->device;
  State& s = state();
  *out = s.next++;
  s.handles[*out] = {*stretch, 1, properties, /*fresh=*/false};
  return CUDA_SUCCESS;
}
