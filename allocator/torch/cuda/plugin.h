// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/core.h"
#include "allocator/reclaimer.h"

namespace cinch::allocator {

/// A CUDA device, described alike in every process.
struct CudaDevice {
  char name[48];            ///< "GPU-" and its UUID, as nvidia-smi has it
  std::size_t total_bytes;  ///< of memory
};

/// The functions that libcinch_torch_cuda-MINOR.so, the CUDA allocator, offers to libcinch_torch.
///
/// The library is separate because it needs libc10_cuda and libcudart, which a CPU-only torch has
/// not. It is loaded when libc10_cuda is in the process. (Weak symbols would not do: torch and its
/// libraries are loaded RTLD_LOCAL, where another library's lookups do not see them.) Both
/// libraries are of one build, so C++ types pass between them.
struct CudaPlugin {
  std::uint32_t abi;

  /// A device's core, set up now if need be; null when the device has none. Throws nothing.
  Core* (*core)(int device);
  /// The same, but sets nothing up: null until the device is used, and in children of a process
  /// that used CUDA before the fork.
  Core* (*used_core)(int device);
  /// Sets the reclaimer to ask before the program gets an out-of-memory error; null: none.
  void (*set_reclaimer)(Reclaimer* reclaimer);
  /// Tells of a stream (a cudaStream_t) of the caller's own, which is not PyTorch's but lives as
  /// long as the process: its memory may come from the core.
  void (*adopt_stream)(void* stream);
  /// Null when unknown. The result lives forever. Throws nothing; asks the driver once.
  const CudaDevice* (*describe)(int device);
};

/// Increases with every change to CudaPlugin, Core or Reclaimer that makes different builds
/// incompatible.
inline constexpr std::uint32_t cuda_plugin_abi = 4;

/// `cinch_cuda_open`: replaces PyTorch's CUDA allocator by ours. When that is not possible it
/// returns null and PyTorch's stays; `why` (of `capacity` bytes) gets the reason, or "" when the
/// user wants it so.
/// @pre called once, before another thread uses CUDA
using CudaPluginOpen = const CudaPlugin* (*)(char* why, std::size_t capacity);

}  // namespace cinch::allocator
