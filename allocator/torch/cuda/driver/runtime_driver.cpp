// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/cuda/driver/runtime_driver.h"

#include <array>

#include <cuda_runtime_api.h>
#include <fcntl.h>

#include "allocator/driver/cuda_memory.h"
#include "allocator/driver/driver_table.h"

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

// Functions for contexts, which every driver has.
struct Contexts {
  decltype(&::cuInit) init = nullptr;
  decltype(&::cuDevicePrimaryCtxRetain) retain = nullptr;
  decltype(&::cuCtxPushCurrent) push = nullptr;
  decltype(&::cuCtxPopCurrent) pop = nullptr;
};
const Contexts* contexts() {
  static const Contexts found = [] {
    Contexts c;
    const bool all = find("cuInit", c.init) && find("cuDevicePrimaryCtxRetain", c.retain) &&
                     find("cuCtxPushCurrent", c.push) && find("cuCtxPopCurrent", c.pop);
    return all ? c : Contexts{};
  }();
  return found.init == nullptr ? nullptr : &found;
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

// What memory can do besides being used, as bits. It can't be asked for afterwards, and not every
// system has it, whatever the device says.
constexpr unsigned exportable = 2;  // other processes can map it, by a file descriptor
constexpr unsigned rdma = 1;        // network cards can read it (GPUDirect RDMA)

CUmemAllocationProp properties_of(int device, unsigned extras) {
  CUmemAllocationProp properties = device_memory(device);
  if ((extras & exportable) != 0) {
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  }
  properties.allocFlags.gpuDirectRDMACapable = (extras & rdma) != 0 ? 1 : 0;
  return properties;
}

// Calls `attempt` with the extras, and as long as it fails for another reason than a lack of memory
// with fewer of them. Returns its last result.
template <class Attempt>
CUresult with_most_extras(unsigned extras, const Attempt& attempt) {
  for (unsigned some = extras;; some = (some - 1) & extras) {
    const CUresult result = attempt(some);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY || some == 0) return result;
  }
}

cudaEvent_t to_event(Event event) {
  return reinterpret_cast<cudaEvent_t>(event);  // NOLINT(performance-no-int-to-ptr)
}
cudaStream_t to_stream(Stream stream) {
  return reinterpret_cast<cudaStream_t>(stream);  // NOLINT(performance-no-int-to-ptr)
}

// Makes a device's context current for a scope. With cudaSetDevice, going back to a device that the
// program does not use would make a context there.
class InContext {
 public:
  explicit InContext(void* context)
      : good_(context != nullptr &&
              contexts()->push(static_cast<CUcontext>(context)) == CUDA_SUCCESS) {}
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
  ~InContext() {
    CUcontext popped = nullptr;
    if (good_) contexts()->pop(&popped);
  }
  explicit operator bool() const { return good_; }

 private:
  bool good_;
};

// Makes a call of the runtime. Its error is not left for the program's next check, unless the
// program's own was pending: then there still is an error to be found.
template <class Call>
Status call_runtime(const Call& call) {
  const bool programs_error = cudaPeekAtLastError() != cudaSuccess;
  const cudaError_t error = call();
  if (error == cudaSuccess) return Status::ok;
  if (!programs_error) cudaGetLastError();
  if (error == cudaErrorNotReady) return Status::not_ready;
  return error == cudaErrorMemoryAllocation ? Status::out_of_memory : Status::failed;
}

}  // namespace

struct RuntimeDriver::Calls : CudaMemoryCalls<Calls> {
  static RuntimeDriver& of(void* self) { return *static_cast<RuntimeDriver*>(self); }
  static const CudaMemory& functions() { return driver(); }

  struct Current : InContext {
    explicit Current(void* self) : InContext(of(self).context_) {}
  };
  template <class Call>
  static Status runtime(void* self, const Call& call) {
    const Current current(self);
    return current ? call_runtime(call) : Status::failed;
  }

  static Status create(void* self, std::size_t bytes, Handle* handle) {
    const Current current(self);
    if (!current) return Status::failed;
    CUmemGenericAllocationHandle created = 0;
    const CUresult result = with_most_extras(of(self).extras_, [&](unsigned extras) {
      const CUmemAllocationProp properties = properties_of(of(self).device_, extras);
      return driver().create(&created, bytes, &properties, 0);
    });
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
    return runtime(self, [&] { return cudaMemGetInfo(free, total); });
  }
  static Status event_create(void* self, Event* event) {
    cudaEvent_t created = nullptr;
    const Status status =
        runtime(self, [&] { return cudaEventCreateWithFlags(&created, cudaEventDisableTiming); });
    if (status == Status::ok) *event = reinterpret_cast<Event>(created);
    return status;
  }
  static Status event_destroy(void* self, Event event) {
    return runtime(self, [&] { return cudaEventDestroy(to_event(event)); });
  }
  static Status event_record(void* self, Event event, Stream stream) {
    bool gone = false;
    const Status status = runtime(self, [&] {
      const cudaError_t error = cudaEventRecord(to_event(event), to_stream(stream));
      gone = error == cudaErrorInvalidResourceHandle || error == cudaErrorContextIsDestroyed;
      return error;
    });
    if (!gone) return status;
    // The program recorded a block's use in the stream and destroyed the stream, which may still
    // have work to do.
    return runtime(self, [&] {
      const cudaError_t error = cudaDeviceSynchronize();
      return error == cudaSuccess ? cudaEventRecord(to_event(event), nullptr) : error;
    });
  }
  static Status event_query(void* self, Event event) {
    return runtime(self, [&] { return cudaEventQuery(to_event(event)); });
  }
  static Status event_synchronize(void* self, Event event) {
    return runtime(self, [&] { return cudaEventSynchronize(to_event(event)); });
  }
  static Status stream_wait(void* self, Stream stream, Event event) {
    return runtime(self,
                   [&] { return cudaStreamWaitEvent(to_stream(stream), to_event(event), 0); });
  }
  static std::uint64_t now(void*) { return monotonic_nanoseconds(); }
};

RuntimeDriver::RuntimeDriver(int device) : device_(device) {
  if (device < 0 || device >= most_devices) {
    fault_ = "there are too many devices";
    return;
  }
  const CudaMemory* f = functions(fault_);
  if (f == nullptr) return;
  CUdevice handle = 0;
  CUcontext context = nullptr;
  // Never given back: the runtime holds the context as well, until the process ends.
  if (contexts() == nullptr || contexts()->init(0) != CUDA_SUCCESS ||
      f->device_get(&handle, device) != CUDA_SUCCESS ||
      contexts()->retain(&context, handle) != CUDA_SUCCESS) {
    fault_ = "there is no such device";
    return;
  }
  context_ = context;
  const auto has = [&](CUdevice_attribute attribute) {
    int value = 0;
    return f->device_get_attribute(&value, attribute, handle) == CUDA_SUCCESS && value != 0;
  };
  if (!has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)) {
    fault_ = "the device has no virtual memory management";
    return;
  }
  const unsigned wanted =
      (has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) ? exportable : 0) |
      (has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) ? rdma : 0);
  const CUresult found = with_most_extras(wanted, [&](unsigned extras) {
    extras_ = extras;
    const CUmemAllocationProp properties = properties_of(device, extras);
    return f->granularity(&granularity_, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  });
  if (found != CUDA_SUCCESS || granularity_ == 0) {
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
  const InContext current(context_);
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
  const InContext current(context_);
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
  const InContext current(context_);
  return current && call_runtime([] { return cudaDeviceSynchronize(); }) == Status::ok;
}

}  // namespace cinch::allocator
