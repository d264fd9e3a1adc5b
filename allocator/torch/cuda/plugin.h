// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/core.h"
#include "allocator/reclaimer.h"

namespace cinch::allocator {

/// A CUDA device, in words that hold in every process.
struct CudaDevice {
  char name[48];            ///< "GPU-" and its UUID, as nvidia-smi has it
  std::size_t total_bytes;  ///< of memory
};

/// What the library of the CUDA allocator, libcinch_torch_cuda-MINOR.so, offers the core.
///
/// It is a library of its own because it needs libc10_cuda and libcudart, which a CPU-only torch
/// has not: the core loads it when libc10_cuda is in the process. (Weak symbols would not do: torch
/// and its libraries are loaded RTLD_LOCAL, where another library's lookups do not see them.) Both
/// are of one build, so C++ types pass between them.
struct CudaPlugin {
  std::uint32_t abi;

  /// A device's allocator, set up now if need be; null when the device has none. Throws nothing.
  Core* (*core)(int device);
  /// The same, but null while nobody has used the device, and in a process that was forked from one
  /// that had.
  Core* (*used_core)(int device);
  /// Who is asked for memory before the program is told that there is none; null: nobody.
  void (*set_reclaimer)(Reclaimer* reclaimer);
  /// Null when the device is not known. Lives forever. Throws nothing; asks the driver once.
  const CudaDevice* (*describe)(int device);
};

/// Increases with every change to CudaPlugin, Core or Reclaimer that a mixture of builds would trip
/// over.
inline constexpr std::uint32_t cuda_plugin_abi = 2;

/// `cinch_cuda_open`: puts Cinch's allocator in the place of PyTorch's for CUDA. Null when that is
/// not possible: PyTorch's stays, and `why` (of `capacity` bytes) says why, or is empty when there
/// is nothing to say.
/// @pre called once, before another thread uses CUDA
using CudaPluginOpen = const CudaPlugin* (*)(char* why, std::size_t capacity);

}  // namespace cinch::allocator
