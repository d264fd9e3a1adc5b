// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/cuda/plugin.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "allocator/torch/cuda/cuda_allocator.h"
#include "allocator/torch/cuda/settings.h"

#define CINCH_EXPORT extern "C" __attribute__((visibility("default")))

namespace cinch::allocator {
namespace {

CudaAllocator* installed = nullptr;  // never destroyed

Core* core(int device) {
  try {
    return installed->core(device);
  } catch (const std::exception&) {
    return nullptr;
  }
}

Core* used_core(int device) {
  return installed->used_core(device);
}

void set_reclaimer(Reclaimer* reclaimer) {
  installed->set_reclaimer(reclaimer);
}

void adopt_stream(void* stream) {
  installed->adopt_stream(static_cast<cudaStream_t>(stream));
}

std::atomic<const CudaDevice*> described[RuntimeDriver::most_devices];  // never destroyed

const CudaDevice* describe(int device) {
  if (device < 0 || device >= RuntimeDriver::most_devices) return nullptr;
  const CudaDevice* known = described[device].load(std::memory_order_acquire);
  if (known != nullptr) return known;
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
    cudaGetLastError();  // else the program's next check would report it
    return nullptr;
  }
  auto made = std::unique_ptr<CudaDevice>(new (std::nothrow) CudaDevice{});
  if (made == nullptr) return nullptr;
  char* at = made->name + std::snprintf(made->name, sizeof made->name, "GPU");
  for (int i = 0; i < 16; ++i) {
    const bool first = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    at +=
        std::snprintf(at, 4, first ? "-%02x" : "%02x",
                      static_cast<unsigned>(static_cast<unsigned char>(properties.uuid.bytes[i])));
  }
  made->total_bytes = properties.totalGlobalMem;
  if (described[device].compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) {
    known = made.release();
  }
  return known;
}

const CudaPlugin plugin = {cuda_plugin_abi, core, used_core, set_reclaimer, adopt_stream, describe};

// Prints one line with the user's settings for PyTorch's allocator that have no effect here, since
// they may have been the answer to a problem.
void name_settings_without_effect() {
  for (const char* variable : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr) continue;
    std::string names;
    for (const std::string& name : settings_without_effect(value)) {
      names += (names.empty() ? "" : ", ") + name;
    }
    if (!names.empty()) {
      std::fprintf(stderr,
                   "cinch: %s: %s: without effect on Cinch's CUDA allocator, which loses no memory "
                   "to splitting\n",
                   variable, names.c_str());
    }
    return;  // PyTorch also reads only the first that is set
  }
}

const char* install() {
  auto* native = c10::cuda::CUDACachingAllocator::allocator.load();
  if (native == nullptr) return "PyTorch has not set its own";
  if (std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr) return "";  // as the user wants
  // Another backend, set in PYTORCH_CUDA_ALLOC_CONF, or a program's own allocator.
  if (native->name() != "native") return "the program uses another one than PyTorch's native";
  name_settings_without_effect();
  installed = new CudaAllocator(*native);
  // Registered before libcinch_torch's handlers. The last registered runs first before a fork, so
  // the stash's locks are taken before these and released after them.
  pthread_atfork([] { installed->lock_for_fork(); }, [] { installed->unlock_after_fork(); },
                 [] { installed->begin_in_child(); });
  c10::cuda::CUDACachingAllocator::allocator.store(installed);
  // torch.accelerator.memory_* uses this one. With PyTorch's own priority, so that a program's
  // change_current_allocator still wins.
  c10::SetAllocator(c10::DeviceType::CUDA, installed, /*priority=*/0);
  return nullptr;
}

}  // namespace
}  // namespace cinch::allocator

CINCH_EXPORT const cinch::allocator::CudaPlugin* cinch_cuda_open(char* why, std::size_t capacity) {
  using namespace cinch::allocator;
  try {
    const char* fault = install();
    if (fault == nullptr) return &plugin;
    std::snprintf(why, capacity, "%s", fault);
  } catch (const std::exception& error) {
    std::snprintf(why, capacity, "%s", error.what());
  }
  return nullptr;
}

// Writes a device's figures as JSON, for tests and tools, into `buffer` of `capacity` bytes:
// zero-terminated, cut short if need be; "null" when the device is not ours. Returns the bytes that
// the whole text needs, without the zero.
CINCH_EXPORT std::size_t cinch_cuda_allocator_json(int device, char* buffer, std::size_t capacity) {
  using namespace cinch::allocator;
  Core* asked = installed == nullptr ? nullptr : core(device);
  if (asked == nullptr) return static_cast<std::size_t>(std::snprintf(buffer, capacity, "null"));
  const Stats s = asked->stats();
  std::string fault;
  const bool sound = asked->verify(fault);
  const int length = std::snprintf(
      buffer, capacity,
      R"({"allocated": %zu, "peak_allocated": %zu, "reserved": %zu, "peak_reserved": %zu, )"
      R"("used_blocks": %zu, "pending": %zu, "allocations": %llu, "misses": %llu, )"
      R"("stitches": %llu, "moved_bytes": %llu, "moved_early_bytes": %llu, "leaving": %zu, )"
      R"("foreign": %llu, "host_waits": %llu, )"
      R"("reclaims": %llu, "failures": %llu, "driver_errors": %llu, "fault": "%s"})",
      s.allocated, s.peak_allocated, s.reserved, s.peak_reserved, s.used_blocks, s.pending,
      static_cast<unsigned long long>(s.allocations), static_cast<unsigned long long>(s.misses),
      static_cast<unsigned long long>(s.stitches), static_cast<unsigned long long>(s.moved_bytes),
      static_cast<unsigned long long>(s.moved_early_bytes), s.leaving,
      static_cast<unsigned long long>(s.foreign), static_cast<unsigned long long>(s.host_waits),
      static_cast<unsigned long long>(s.reclaims), static_cast<unsigned long long>(s.failures),
      static_cast<unsigned long long>(s.driver_errors), sound ? "" : fault.c_str());
  return length < 0 ? 0 : static_cast<std::size_t>(length);
}
