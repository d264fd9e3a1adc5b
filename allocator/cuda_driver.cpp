// SPDX-License-Identifier: Apache-2.0
#include "allocator/cuda_driver.h"

#include <ctime>

#include <cuda.h>
#include <dlfcn.h>

#include "allocator/driver_table.h"

namespace cinch::allocator {
namespace {

// What is used of libcuda. Names are the exported ones: cuda.h maps some to versioned symbols, so
// the type is taken from the header's declaration and the symbol's name is spelt out.
struct Functions {
  decltype(&::cuInit) init;
  decltype(&::cuDeviceGet) device_get;
  decltype(&::cuDeviceGetAttribute) device_get_attribute;
  decltype(&::cuDevicePrimaryCtxRetain) context_retain;
  decltype(&::cuDevicePrimaryCtxRelease) context_release;
  decltype(&::cuCtxPushCurrent) context_push;
  decltype(&::cuCtxPopCurrent) context_pop;
  decltype(&::cuMemGetInfo) memory_info;
  decltype(&::cuMemGetAllocationGranularity) granularity;
  decltype(&::cuMemAddressReserve) reserve;
  decltype(&::cuMemAddressFree) unreserve;
  decltype(&::cuMemCreate) create;
  decltype(&::cuMemRelease) release;
  decltype(&::cuMemMap) map;
  decltype(&::cuMemUnmap) unmap;
  decltype(&::cuMemSetAccess) set_access;
  decltype(&::cuEventCreate) event_create;
  decltype(&::cuEventDestroy) event_destroy;
  decltype(&::cuEventRecord) event_record;
  decltype(&::cuEventQuery) event_query;
  decltype(&::cuEventSynchronize) event_synchronize;
  decltype(&::cuStreamWaitEvent) stream_wait;
};

template <class Function>
bool find(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr) return true;
  missing = name;
  return false;
}

// The functions, or null and what is missing. Found once; libcuda is never closed.
const Functions* functions(std::string& fault) {
  struct Found {
    Functions table{};
    std::string fault;
  };
  static const Found found = [] {
    Found f;
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      f.fault = "libcuda.so.1 cannot be loaded";
      return f;
    }
    Functions& t = f.table;
    std::string missing;
    const bool all = find(library, "cuInit", t.init, missing) &&
                     find(library, "cuDeviceGet", t.device_get, missing) &&
                     find(library, "cuDeviceGetAttribute", t.device_get_attribute, missing) &&
                     find(library, "cuDevicePrimaryCtxRetain", t.context_retain, missing) &&
                     find(library, "cuDevicePrimaryCtxRelease_v2", t.context_release, missing) &&
                     find(library, "cuCtxPushCurrent_v2", t.context_push, missing) &&
                     find(library, "cuCtxPopCurrent_v2", t.context_pop, missing) &&
                     find(library, "cuMemGetInfo_v2", t.memory_info, missing) &&
                     find(library, "cuMemGetAllocationGranularity", t.granularity, missing) &&
                     find(library, "cuMemAddressReserve", t.reserve, missing) &&
                     find(library, "cuMemAddressFree", t.unreserve, missing) &&
                     find(library, "cuMemCreate", t.create, missing) &&
                     find(library, "cuMemRelease", t.release, missing) &&
                     find(library, "cuMemMap", t.map, missing) &&
                     find(library, "cuMemUnmap", t.unmap, missing) &&
                     find(library, "cuMemSetAccess", t.set_access, missing) &&
                     find(library, "cuEventCreate", t.event_create, missing) &&
                     find(library, "cuEventDestroy_v2", t.event_destroy, missing) &&
                     find(library, "cuEventRecord", t.event_record, missing) &&
                     find(library, "cuEventQuery", t.event_query, missing) &&
                     find(library, "cuEventSynchronize", t.event_synchronize, missing) &&
                     find(library, "cuStreamWaitEvent", t.stream_wait, missing);
    if (!all) f.fault = "libcuda.so.1 has no " + missing;
    return f;
  }();
  fault = found.fault;
  return found.fault.empty() ? &found.table : nullptr;
}

const Functions& cuda() {
  std::string fault;
  return *functions(fault);  // a usable CudaDriver exists, so they were found
}

CUmemAllocationProp properties_of(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

Status status_of(CUresult result) {
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

CUevent to_event(Event event) {
  return reinterpret_cast<CUevent>(event);  // NOLINT(performance-no-int-to-ptr)
}
CUstream to_stream(Stream stream) {
  return reinterpret_cast<CUstream>(stream);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

struct CudaDriver::Calls {
  static CudaDriver& of(void* self) { return *static_cast<CudaDriver*>(self); }

  /// The device's context, current for a scope.
  class Current {
   public:
    explicit Current(void* self)
        : good_(cuda().context_push(static_cast<CUcontext>(of(self).context_)) == CUDA_SUCCESS) {}
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    ~Current() {
      CUcontext popped = nullptr;
      if (good_) cuda().context_pop(&popped);
    }
    explicit operator bool() const { return good_; }

   private:
    bool good_;
  };

  static Status reserve(void* self, std::size_t bytes, Address* address) {
    const Current current(self);
    if (!current) return Status::failed;
    CUdeviceptr pointer = 0;
    const CUresult result = cuda().reserve(&pointer, bytes, 0, 0, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return Status::out_of_addresses;
    if (result == CUDA_SUCCESS) *address = pointer;
    return status_of(result);
  }
  static Status unreserve(void* self, Address address, std::size_t bytes) {
    const Current current(self);
    return current ? status_of(cuda().unreserve(address, bytes)) : Status::failed;
  }
  static Status create(void* self, std::size_t bytes, Handle* handle) {
    const Current current(self);
    if (!current) return Status::failed;
    const CUmemAllocationProp properties = properties_of(of(self).device_);
    CUmemGenericAllocationHandle created = 0;
    const CUresult result = cuda().create(&created, bytes, &properties, 0);
    if (result == CUDA_SUCCESS) *handle = created;
    return status_of(result);
  }
  static Status release(void* self, Handle handle) {
    const Current current(self);
    return current ? status_of(cuda().release(handle)) : Status::failed;
  }
  static Status map(void* self, Address address, std::size_t bytes, Handle handle) {
    const Current current(self);
    return current ? status_of(cuda().map(address, bytes, 0, handle, 0)) : Status::failed;
  }
  static Status unmap(void* self, Address address, std::size_t bytes, Handle) {
    const Current current(self);
    return current ? status_of(cuda().unmap(address, bytes)) : Status::failed;
  }
  static Status set_access(void* self, Address address, std::size_t bytes) {
    const Current current(self);
    if (!current) return Status::failed;
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = of(self).device_;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return status_of(cuda().set_access(address, bytes, &access, 1));
  }
  static Status memory_info(void* self, std::size_t* free, std::size_t* total) {
    const Current current(self);
    return current ? status_of(cuda().memory_info(free, total)) : Status::failed;
  }
  static Status event_create(void* self, Event* event) {
    const Current current(self);
    if (!current) return Status::failed;
    CUevent created = nullptr;
    const CUresult result = cuda().event_create(&created, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) *event = reinterpret_cast<Event>(created);
    return status_of(result);
  }
  static Status event_destroy(void* self, Event event) {
    const Current current(self);
    return current ? status_of(cuda().event_destroy(to_event(event))) : Status::failed;
  }
  static Status event_record(void* self, Event event, Stream stream) {
    const Current current(self);
    return current ? status_of(cuda().event_record(to_event(event), to_stream(stream)))
                   : Status::failed;
  }
  static Status event_query(void* self, Event event) {
    const Current current(self);
    return current ? status_of(cuda().event_query(to_event(event))) : Status::failed;
  }
  static Status event_synchronize(void* self, Event event) {
    const Current current(self);
    return current ? status_of(cuda().event_synchronize(to_event(event))) : Status::failed;
  }
  static Status stream_wait(void* self, Stream stream, Event event) {
    const Current current(self);
    return current ? status_of(cuda().stream_wait(to_stream(stream), to_event(event), 0))
                   : Status::failed;
  }
  static std::uint64_t now(void*) {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec);
  }
};

CudaDriver::CudaDriver(int device) : device_(device) {
  const Functions* f = functions(fault_);
  if (f == nullptr) return;
  CUdevice handle = 0;
  int has_memory_management = 0;
  if (f->init(0) != CUDA_SUCCESS || f->device_get(&handle, device) != CUDA_SUCCESS) {
    fault_ = "there is no such device";
    return;
  }
  if (f->device_get_attribute(&has_memory_management,
                              CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                              handle) != CUDA_SUCCESS ||
      has_memory_management == 0) {
    fault_ = "the device has no virtual memory management";
    return;
  }
  CUcontext context = nullptr;
  if (f->context_retain(&context, handle) != CUDA_SUCCESS) {
    fault_ = "the device's primary context cannot be had";
    return;
  }
  context_ = context;
  const CUmemAllocationProp properties = properties_of(device);
  if (f->granularity(&granularity_, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) !=
      CUDA_SUCCESS) {
    fault_ = "the device does not say its granularity";
    return;
  }
  usable_ = true;
}

CudaDriver::~CudaDriver() {
  if (context_ == nullptr) return;
  const Functions& f = cuda();
  CUdevice handle = 0;
  if (f.device_get(&handle, device_) == CUDA_SUCCESS) f.context_release(handle);
}

Driver CudaDriver::table() noexcept {
  Driver table;
  table.self = this;
  table.name = "cuda";
  table.granularity = granularity_;
  set_calls<Calls>(table);
  return table;
}

}  // namespace cinch::allocator
