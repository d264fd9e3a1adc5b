// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "allocator/driver.h"

namespace cinch::allocator {

/// An NVIDIA GPU through the driver's virtual memory functions, found in libcuda.so.1 at run time:
/// no program needs CUDA to load this library.
///
/// Every call makes the device's primary context current for its duration, as the CUDA runtime
/// would, so that any thread may make it. Streams and events are CUstream and CUevent. Thread-safe.
/// Compiled only where CUDA's headers are.
class CudaDriver {
 public:
  /// Finds the functions; `device` is CUDA's number of the GPU. `fault` says why it is not
  /// `usable`.
  explicit CudaDriver(int device);
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;
  /// Releases the primary context; libcuda stays loaded, since it can't be unloaded safely.
  ~CudaDriver();

  bool usable() const noexcept { return usable_; }
  const std::string& fault() const noexcept { return fault_; }

  /// @pre usable()
  Driver table() noexcept;

 private:
  struct Calls;

  int device_;
  void* context_ = nullptr;  // CUcontext
  bool usable_ = false;
  std::size_t granularity_ = 0;
  std::string fault_;
};

}  // namespace cinch::allocator
