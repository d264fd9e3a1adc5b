// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/cuda/runtime_driver.h"

#include <array>

#include <cuda_runtime_api.h>
#include <fcntl.h>

#include "allocator/cuda_memory.h"
#include "allocator/driver_table.h"

namespace cinch::allocator {
namespace {

template <class Function>
bool find(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  // These functions came with CUDA 10.2 and have not changed since.
#if CUDART_VERSION >= 12050
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, 11000, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (error != cudaSuccess) cudaGetLastError();
  function = reinterpret_cast<Function>(found);
  return error == cudaSuccess && found != nullptr;
}

// The functions, or null and what is missing. Found once.
const CudaMemory* functions(std::string& fault) {
  static const FoundFunctions<CudaMemory> found = [] {
    FoundFunctions<CudaMemory> f;
    f.table.find([&f](const char* name, auto& function) {
      const bool there = find(name, function);
      if (!there) f.fault = std::string("the driver has no ") + name;
      return there;
    });
    return f;
  }();
  return found.get(fault);
}

// Functions that a driver may lack.
struct Sharing {
  decltype(&::cuMemExportToShareableHandle) export_handle = nullptr;
  decltype(&::cuMemImportFromShareableHandle) import_handle = nullptr;
};
const Sharing& sharing() {
  static const Sharing found = [] {
    Sharing s;
    if (!find("cuMemExportToShareableHandle", s.export_handle) ||
        !find("cuMemImportFromShareableHandle", s.import_handle)) {
      s = {};
    }
    return s;
  }();
  return found;
}

const CudaMemory& driver() {
  std::string fault;
  return *functions(fault);  // a usable RuntimeDriver exists, so they were found
}

CUmemAllocationProp properties_of(int device) {
  CUmemAllocationProp properties = device_memory(device);
  // Lets a block be shared with another process later: this can't be asked for afterwards.
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

Status status_of(cudaError_t error) {
  if (error == cudaSuccess) return Status::ok;
  cudaGetLastError();  // else the program's next check would report it
  if (error == cudaErrorNotReady) return Status::not_ready;
  return error == cudaErrorMemoryAllocation ? Status::out_of_memory : Status::failed;
}

cudaEvent_t to_event(Event event) {
  return reinterpret_cast<cudaEvent_t>(event);  // NOLINT(performance-no-int-to-ptr)
}
cudaStream_t to_stream(Stream stream) {
  return reinterpret_cast<cudaStream_t>(stream);  // NOLINT(performance-no-int-to-ptr)
}

// Makes the device current for a scope.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    good_ = cudaGetDevice(&before_) == cudaSuccess;
    if (good_ && before_ != device) {
      good_ = cudaSetDevice(device) == cudaSuccess;
      changed_ = good_;
    }
    if (!good_) cudaGetLastError();
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    if (changed_ && cudaSetDevice(before_) != cudaSuccess) cudaGetLastError();
  }
  explicit operator bool() const { return good_; }

 private:
  int before_ = 0;
  bool good_ = false;
  bool changed_ = false;
};

}  // namespace

struct RuntimeDriver::Calls : CudaMemoryCalls<Calls> {
  static RuntimeDriver& of(void* self) { return *static_cast<RuntimeDriver*>(self); }
  static const CudaMemory& functions() { return driver(); }

  struct Current : OnDevice {
    explicit Current(void* self) : OnDevice(of(self).device_) {}
  };

  static Status create(void* self, std::size_t bytes, Handle* handle) {
    const Current current(self);
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
  static Status set_access(void* self, Address address, std::size_t bytes) {
    const Current current(self);
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
    const Current current(self);
    return current ? status_of(cudaMemGetInfo(free, total)) : Status::failed;
  }
  static Status event_create(void* self, Event* event) {
    const Current current(self);
    if (!current) return Status::failed;
    cudaEvent_t created = nullptr;
    const cudaError_t error = cudaEventCreateWithFlags(&created, cudaEventDisableTiming);
    if (error == cudaSuccess) *event = reinterpret_cast<Event>(created);
    return status_of(error);
  }
  static Status event_destroy(void* self, Event event) {
    const Current current(self);
    return current ? status_of(cudaEventDestroy(to_event(event))) : Status::failed;
  }
  static Status event_record(void* self, Event event, Stream stream) {
    const Current current(self);
    return current ? status_of(cudaEventRecord(to_event(event), to_stream(stream)))
                   : Status::failed;
  }
  static Status event_query(void* self, Event event) {
    const Current current(self);
    return current ? status_of(cudaEventQuery(to_event(event))) : Status::failed;
  }
  static Status event_synchronize(void* self, Event event) {
    const Current current(self);
    return current ? status_of(cudaEventSynchronize(to_event(event))) : Status::failed;
  }
  static Status stream_wait(void* self, Stream stream, Event event) {
    const Current current(self);
    return current ? status_of(cudaStreamWaitEvent(to_stream(stream), to_event(event), 0))
                   : Status::failed;
  }
  static std::uint64_t now(void*) { return monotonic_nanoseconds(); }
};

RuntimeDriver::RuntimeDriver(int device) : device_(device) {
  if (device < 0 || device >= most_devices) {
    fault_ = "there are too many devices";
    return;
  }
  const OnDevice current(device);
  if (!current) {
    fault_ = "there is no such device";
    return;
  }
  const CudaMemory* f = functions(fault_);
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

int RuntimeDriver::export_handle(Handle handle) {
  const OnDevice current(device_);
  int descriptor = -1;
  if (!current || sharing().export_handle == nullptr ||
      sharing().export_handle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) !=
          CUDA_SUCCESS) {
    return -1;
  }
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);  // an executed program would keep the memory alive
  return descriptor;
}

Status RuntimeDriver::import_handle(int descriptor, Handle* handle) {
  const OnDevice current(device_);
  if (!current || sharing().import_handle == nullptr) return Status::failed;
  CUmemGenericAllocationHandle imported = 0;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  void* as_pointer = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
  const CUresult result =
      sharing().import_handle(&imported, as_pointer, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result == CUDA_SUCCESS) *handle = imported;
  return status_of(result);
}

bool RuntimeDriver::synchronize() {
  const OnDevice current(device_);
  return current && status_of(cudaDeviceSynchronize()) == Status::ok;
}

}  // namespace cinch::allocator
