// SPDX-License-Identifier: Apache-2.0
//
// Sharing of cudaMalloc's memory between processes (cudaIpc*). The memory is private to the process
// until a handle is requested; then its contents move to the shared file, at the same addresses.
#include <cstring>
#include <map>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"
#include "devices.h"
#include "memory.h"
#include "scheduler.h"
#include "shared_file.h"

namespace fakecuda {
namespace {

/// Contents of a cudaIpcMemHandle_t.
struct Handle {
  std::uint64_t magic = 0x6d656d656b6166;
  std::int32_t process = 0;
  std::int32_t descriptor = 0;
  std::int32_t device = 0;
  std::uint64_t offset = 0;
};
static_assert(sizeof(Handle) <= sizeof(cudaIpcMemHandle_t));

struct Shared {
  Stretch stretch;
  int descriptor;
};

struct State {
  std::map<Address, Shared> shared;   // this process's, by address
  std::map<Address, Stretch> opened;  // other processes', by address here
};
State& state() {
  static auto* s = new State;  // used by destructors of statics
  return *s;
}

bool map_stretch(Address address, const Stretch& stretch) {
  return mmap(reinterpret_cast<void*>(address), stretch.bytes, PROT_READ | PROT_WRITE,
              MAP_SHARED | MAP_FIXED, stretch.file,
              static_cast<off_t>(stretch.offset)) != MAP_FAILED;
}

cudaError_t share(const Region& region) {
  std::optional<Stretch> stretch = take_stretch(region.bytes);
  if (!stretch) return cudaErrorMemoryAllocation;
  finish_device(region.device);
  void* memory = reinterpret_cast<void*>(region.address);
  void* view = mmap(nullptr, region.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, stretch->file,
                    static_cast<off_t>(stretch->offset));
  const int descriptor = view == MAP_FAILED ? -1 : export_stretch(*stretch, region.device);
  if (view != MAP_FAILED) {
    std::memcpy(view, memory, region.bytes);
    munmap(view, region.bytes);
  }
  if (descriptor < 0 || !map_stretch(region.address, *stretch)) {
    if (descriptor >= 0) close(descriptor);
    give_stretch(*stretch);
    return cudaErrorOperatingSystem;
  }
  state().shared[region.address] = {*stretch, descriptor};
  return cudaSuccess;
}

cudaError_t get(cudaIpcMemHandle_t* out, void* memory) {
  const Region* region = find_region(memory);
  if (region == nullptr || region->kind != Kind::device) return cudaErrorInvalidValue;
  if (!state().shared.contains(region->address)) {
    if (const cudaError_t error = share(*region); error != cudaSuccess) return error;
  }
  const Shared& shared = state().shared.at(region->address);
  Handle handle;
  handle.process = getpid();
  handle.descriptor = shared.descriptor;
  handle.device = region->device;
  handle.offset = shared.stretch.offset;
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &handle, sizeof handle);
  return cudaSuccess;
}

cudaError_t open_handle(void** out, const cudaIpcMemHandle_t& in) {
  Handle handle;
  std::memcpy(static_cast<void*>(&handle), &in, sizeof handle);
  if (handle.magic != Handle{}.magic) return cudaErrorInvalidValue;
  if (handle.process == getpid()) return cudaErrorDeviceUninitialized;  // as in CUDA
  const std::string path =
      "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.descriptor);
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return cudaErrorMapBufferObjectFailed;
  const std::optional<Stretch> stretch =
      import_stretch(descriptor, static_cast<std::int64_t>(handle.offset));
  close(descriptor);
  if (!stretch) return cudaErrorMapBufferObjectFailed;
  const Address address = take_addresses(stretch->bytes, page_bytes);
  if (address == 0 || !map_stretch(address, *stretch)) {
    if (address != 0) give_addresses(address, stretch->bytes);
    give_stretch(*stretch);
    return cudaErrorMapBufferObjectFailed;
  }
  add_region({address, stretch->bytes, handle.device, Kind::opened});
  state().opened[address] = *stretch;
  *out = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

cudaError_t close_handle(void* memory) {
  const auto at = state().opened.find(reinterpret_cast<Address>(memory));
  if (at == state().opened.end()) return cudaErrorInvalidValue;
  finish_device(current_device());
  remove_region(at->first);
  give_addresses(at->first, at->second.bytes);
  give_stretch(at->second);
  state().opened.erase(at);
  return cudaSuccess;
}

}  // namespace

void forget_shared(Address address) {
  const auto at = state().shared.find(address);
  if (at == state().shared.end()) return;
  close(at->second.descriptor);
  give_stretch(at->second.stretch);
  state().shared.erase(at);
}

}  // namespace fakecuda

using namespace fakecuda;

FAKECUDA_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  FAKECUDA_RUNTIME(cudaIpcGetMemHandle, "%p", memory);
  return returned(get(handle, memory));
}
FAKECUDA_API cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned) {
  FAKECUDA_RUNTIME(cudaIpcOpenMemHandle);
  return returned(open_handle(memory, handle));
}
FAKECUDA_API cudaError_t cudaIpcCloseMemHandle(void* memory) {
  FAKECUDA_RUNTIME(cudaIpcCloseMemHandle, "%p", memory);
  host_waits(site);
  return returned(close_handle(memory));
}
