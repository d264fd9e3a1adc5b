// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/cuda/runtime_driver.h"

#include <array>
#include <ctime>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "allocator/driver_table.h"

namespace cinch::allocator {
namespace {

struct Functions {
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
};

template <class Function>
bool find(const char* name, Function& function, std::string& missing) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  // Virtual memory came with CUDA 10.2; every later function of these names is the same.
#if CUDART_VERSION >= 12050
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, 11000, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (error != cudaSuccess) cudaGetLastError();
  function = reinterpret_cast<Function>(found);
  if (error == cudaSuccess && found != nullptr) return true;
  missing = name;
  return false;
}

// The functions, or null and what is missing. Found once.
const Functions* functions(std::string& fault) {
  struct Found {
    Functions table{};
    std::string fault;
  };
  static const Found found = [] {
    Found f;
    Functions& t = f.table;
    std::string missing;
    const bool all =
        find("cuDeviceGet", t.device_get, missing) &&
        find("cuDeviceGetAttribute", t.device_get_attribute, missing) &&
        find("cuMemGetAllocationGranularity", t.granularity, missing) &&
        find("cuMemAddressReserve", t.reserve, missing) &&
        find("cuMemAddressFree", t.unreserve, missing) && find("cuMemCreate", t.create, missing) &&
        find("cuMemRelease", t.release, missing) && find("cuMemMap", t.map, missing) &&
        find("cuMemUnmap", t.unmap, missing) && find("cuMemSetAccess", t.set_access, missing);
    if (!all) f.fault = "the driver has no " + missing;
    return f;
  }();
  fault = found.fault;
  return found.fault.empty() ? &found.table : nullptr;
}

const Functions& driver() {
  std::string fault;
  return *functions(fault);  // a usable RuntimeDriver exists, so they were found
}

CUmemAllocationProp properties_of(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  // So that a block can be shared with another process later.
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

Status status_of(CUresult result) {
  if (result == CUDA_SUCCESS) return Status::ok;
  return result == CUDA_ERROR_OUT_OF_MEMORY ? Status::out_of_memory : Status::failed;
}

Status status_of(cudaError_t error) {
  if (error == cudaSuccess) return Status::ok;
  cudaGetLastError();  // the program's next check would take it for its own
  if (error == cudaErrorNotReady) return Status::not_ready;
  return error == cudaErrorMemoryAllocation ? Status::out_of_memory : Status::failed;
}

cudaEvent_t to_event(Event event) {
  return reinterpret_cast<cudaEvent_t>(event);  // NOLINT(performance-no-int-to-ptr)
}
cudaStream_t to_stream(Stream stream) {
  return reinterpret_cast<cudaStream_t>(stream);  // NOLINT(performance-no-int-to-ptr)
}

// The device, current for a scope.
class Current {
 public:
  explicit Current(int device) {
    good_ = cudaGetDevice(&before_) == cudaSuccess;
    if (good_ && before_ != device) {
      good_ = cudaSetDevice(device) == cudaSuccess;
      changed_ = good_;
    }
    if (!good_) cudaGetLastError();
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() {
    if (changed_ && cudaSetDevice(before_) != cudaSuccess) cudaGetLastError();
  }
  explicit operator bool() const { return good_; }

 private:
  int before_ = 0;
  bool good_ = false;
  bool changed_ = false;
};

}  // namespace

struct RuntimeDriver::Calls {
  static RuntimeDriver& of(void* self) { return *static_cast<RuntimeDriver*>(self); }

  static Status reserve(void* self, std::size_t bytes, Address* address) {
    const Current current(of(self).device_);
    if (!current) return Status::failed;
    CUdeviceptr pointer = 0;
    const CUresult result = driver().reserve(&pointer, bytes, 0, 0, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return Status::out_of_addresses;
    if (result == CUDA_SUCCESS) *address = pointer;
    return status_of(result);
  }
  static Status unreserve(void* self, Address address, std::size_t bytes) {
    const Current current(of(self).device_);
    return current ? status_of(driver().unreserve(address, bytes)) : Status::failed;
  }
  static Status create(void* self, std::size_t bytes, Handle* handle) {
    const Current current(of(self).device_);
    if (!current) return Status::failed;
    CUmemAllocationProp properties = properties_of(of(self).device_);
    CUmemGenericAllocationHandle created = 0;
    CUresult result = driver().create(&created, bytes, &properties, 0);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY) {
      properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;  // not every system has them
      result = driver().create(&created, bytes, &properties, 0);
    }
    if (result == CUDA_SUCCESS) *handle = created;
    return status_of(result);
  }
  static Status release(void* self, Handle handle) {
    const Current current(of(self).device_);
    return current ? status_of(driver().release(handle)) : Status::failed;
  }
  static Status map(void* self, Address address, std::size_t bytes, Handle handle) {
    const Current current(of(self).device_);
    return current ? status_of(driver().map(address, bytes, 0, handle, 0)) : Status::failed;
  }
  static Status unmap(void* self, Address address, std::size_t bytes, Handle) {
    const Current current(of(self).device_);
    return current ? status_of(driver().unmap(address, bytes)) : Status::failed;
  }
  static Status set_access(void* self, Address address, std::size_t bytes) {
    const Current current(of(self).device_);
    if (!current) return Status::failed;
    std::array<CUmemAccessDesc, most_devices> access{};
    std::size_t count = 0;
    const std::uint64_t peers = of(self).peers_.load() | std::uint64_t{1} << of(self).device_;
    for (int device = 0; device < most_devices; ++device) {
      if ((peers >> device & 1) == 0) continue;
      access[count].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      access[count].location.id = device;
      access[count++].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    return status_of(driver().set_access(address, bytes, access.data(), count));
  }
  static Status memory_info(void* self, std::size_t* free, std::size_t* total) {
    const Current current(of(self).device_);
    return current ? status_of(cudaMemGetInfo(free, total)) : Status::failed;
  }
  static Status event_create(void* self, Event* event) {
    const Current current(of(self).device_);
    if (!current) return Status::failed;
    cudaEvent_t created = nullptr;
    const cudaError_t error = cudaEventCreateWithFlags(&created, cudaEventDisableTiming);
    if (error == cudaSuccess) *event = reinterpret_cast<Event>(created);
    return status_of(error);
  }
  static Status event_destroy(void* self, Event event) {
    const Current current(of(self).device_);
    return current ? status_of(cudaEventDestroy(to_event(event))) : Status::failed;
  }
  static Status event_record(void* self, Event event, Stream stream) {
    const Current current(of(self).device_);
    return current ? status_of(cudaEventRecord(to_event(event), to_stream(stream)))
                   : Status::failed;
  }
  static Status event_query(void* self, Event event) {
    const Current current(of(self).device_);
    return current ? status_of(cudaEventQuery(to_event(event))) : Status::failed;
  }
  static Status event_synchronize(void* self, Event event) {
    const Current current(of(self).device_);
    return current ? status_of(cudaEventSynchronize(to_event(event))) : Status::failed;
  }
  static Status stream_wait(void* self, Stream stream, Event event) {
    const Current current(of(self).device_);
    return current ? status_of(cudaStreamWaitEvent(to_stream(stream), to_event(event), 0))
                   : Status::failed;
  }
  static std::uint64_t now(void*) {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec);
  }
};

RuntimeDriver::RuntimeDriver(int device) : device_(device) {
  if (device < 0 || device >= most_devices) {
    fault_ = "there are too many devices";
    return;
  }
  const Current current(device);
  if (!current) {
    fault_ = "there is no such device";
    return;
  }
  const Functions* f = functions(fault_);
  if (f == nullptr) return;
  CUdevice handle = 0;
  int has_memory_management = 0;
  if (f->device_get(&handle, device) != CUDA_SUCCESS ||
      f->device_get_attribute(&has_memory_management,
                              CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                              handle) != CUDA_SUCCESS ||
      has_memory_management == 0) {
    fault_ = "the device has no virtual memory management";
    return;
  }
  const CUmemAllocationProp properties = properties_of(device);
  if (f->granularity(&granularity_, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) !=
          CUDA_SUCCESS ||
      granularity_ == 0) {
    fault_ = "the device does not say its granularity";
    return;
  }
  usable_ = true;
}

Driver RuntimeDriver::table() noexcept {
  Driver table;
  table.self = this;
  table.name = "cuda runtime";
  table.granularity = granularity_;
  set_calls<Calls>(table);
  return table;
}

}  // namespace cinch::allocator
