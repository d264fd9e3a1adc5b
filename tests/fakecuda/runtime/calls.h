// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "api.h"
#include "devices.h"

namespace fakecuda {

/// One of CUDA's functions: how often it was used, how often the host waited in it, and how often
/// it may have synchronized though nobody asked for it.
class CallSite {
 public:
  explicit CallSite(const char* name);

  const char* name;
  std::atomic<std::uint64_t> uses{0};
  std::atomic<std::uint64_t> syncs{0};
  std::atomic<std::uint64_t> implicit_syncs{0};
  CallSite* next;
};

/// Counts and traces a use of a call. @return 0, or the error that the call must return
[[gnu::format(printf, 2, 3)]] int enter(CallSite& site, const char* format, ...);

/// Counts that the host waits for the device in this call.
void host_waits(CallSite& site);

/// Counts that CUDA may synchronize in this call, which is not one for that.
void may_synchronize(CallSite& site);

/// Gives back the result of a runtime function; an error becomes the thread's last error.
cudaError_t returned(cudaError_t error);
inline CUresult returned(CUresult result) {
  return result;
}

/// Makes every later call return `error`, as after an illegal access. The first error stays.
void break_context(cudaError_t error);

}  // namespace fakecuda

/// Begins a function that can fail. The format and its values describe the arguments in the trace.
#define FAKECUDA_ENTER(type, function, ...)                             \
  static ::fakecuda::CallSite site(#function);                          \
  if (const int injected_ = ::fakecuda::enter(site, " " __VA_ARGS__)) { \
    return ::fakecuda::returned(static_cast<type>(injected_));          \
  }                                                                     \
  [[maybe_unused]] const ::fakecuda::Guard guard_(::fakecuda::global_lock())

/// Functions of the runtime: those that make the current device's primary context, as nearly all
/// do, and those that only ask or set.
#define FAKECUDA_RUNTIME(function, ...)               \
  FAKECUDA_ENTER(cudaError_t, function, __VA_ARGS__); \
  ::fakecuda::make_context()
#define FAKECUDA_QUERY(function, ...) FAKECUDA_ENTER(cudaError_t, function, __VA_ARGS__)
#define FAKECUDA_DRIVER(function, ...) FAKECUDA_ENTER(CUresult, function, __VA_ARGS__)
