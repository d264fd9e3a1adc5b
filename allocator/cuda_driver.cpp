// SPDX-License-Identifier: Apache-2.0
#include "allocator/cuda_driver.h"

#include <dlfcn.h>

#include "allocator/cuda_memory.h"
#include "allocator/driver_table.h"

namespace cinch::allocator {
namespace {

// What is used of libcuda. Names are the exported ones: cuda.h maps some to versioned symbols, so
// the type is taken from the header's declaration and the symbol's name is spelt out.
struct Functions : CudaMemory {
  decltype(&::cuInit) init;
  decltype(&::cuDevicePrimaryCtxRetain) context_retain;
  decltype(&::cuDevicePrimaryCtxRelease) context_release;
  decltype(&::cuCtxPushCurrent) context_push;
  decltype(&::cuCtxPopCurrent) context_pop;
  decltype(&::cuMemGetInfo) memory_info;
  decltype(&::cuEventCreate) event_create;
  decltype(&::cuEventDestroy) event_destroy;
  decltype(&::cuEventRecord) event_record;
  decltype(&::cuEventQuery) event_query;
  decltype(&::cuEventSynchronize) event_synchronize;
  decltype(&::cuStreamWaitEvent) stream_wait;
};

// The functions, or null and what is missing. Found once; libcuda is never closed.
const Functions* functions(std::string& fault) {
  static const FoundFunctions<Functions> found = [] {
    FoundFunctions<Functions> f;
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      f.fault = "libcuda.so.1 cannot be loaded";
      return f;
    }
    const auto find = [&]<class Function>(const char* name, Function& function) {
      function = reinterpret_cast<Function>(dlsym(library, name));
      if (function == nullptr) f.fault = std::string("libcuda.so.1 has no ") + name;
      return function != nullptr;
    };
    Functions& t = f.table;
    // The first that is missing ends the search.
    (void)(t.find(find) && find("cuInit", t.init) &&
           find("cuDevicePrimaryCtxRetain", t.context_retain) &&
           find("cuDevicePrimaryCtxRelease_v2", t.context_release) &&
           find("cuCtxPushCurrent_v2", t.context_push) &&
           find("cuCtxPopCurrent_v2", t.context_pop) && find("cuMemGetInfo_v2", t.memory_info) &&
           find("cuEventCreate", t.event_create) && find("cuEventDestroy_v2", t.event_destroy) &&
           find("cuEventRecord", t.event_record) && find("cuEventQuery", t.event_query) &&
           find("cuEventSynchronize", t.event_synchronize) &&
           find("cuStreamWaitEvent", t.stream_wait));
    return f;
  }();
  return found.get(fault);
}

const Functions& cuda() {
  std::string fault;
  return *functions(fault);  // a usable CudaDriver exists, so they were found
}

CUevent to_event(Event event) {
  return reinterpret_cast<CUevent>(event);  // NOLINT(performance-no-int-to-ptr)
}
CUstream to_stream(Stream stream) {
  return reinterpret_cast<CUstream>(stream);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

struct CudaDriver::Calls : CudaMemoryCalls<Calls> {
  static CudaDriver& of(void* self) { return *static_cast<CudaDriver*>(self); }
  static const Functions& functions() { return cuda(); }

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

  static Status create(void* self, std::size_t bytes, Handle* handle) {
    const Current current(self);
    if (!current) return Status::failed;
    const CUmemAllocationProp properties = device_memory(of(self).device_);
    CUmemGenericAllocationHandle created = 0;
    const CUresult result = cuda().create(&created, bytes, &properties, 0);
    if (result == CUDA_SUCCESS) *handle = created;
    return status_of(result);
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
  static std::uint64_t now(void*) { return monotonic_nanoseconds(); }
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
  const CUmemAllocationProp properties = device_memory(device);
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
