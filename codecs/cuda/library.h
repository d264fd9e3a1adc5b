// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "codecs/cuda/codec.h"

namespace cinch::codecs::cuda {

/// Increases with every change to Library, DeviceCodec or what their functions take: the core and
/// this library ship together, and a mixture must not talk to each other.
inline constexpr std::uint32_t library_abi = 5;

/// What libcinch_cuda.so offers: the CUDA engine as a library of its own, so that the core needs no
/// CUDA and processes without a GPU never load the kernels. All functions are thread-safe.
struct Library {
  std::uint32_t abi;
  /// As make_device_codec(), for the current device.
  std::shared_ptr<const DeviceCodec> (*make_codec)(const CodecSpec& spec);
  /// Whether a CUDA graph is recording `stream`'s work.
  bool (*is_capturing)(Stream stream) noexcept;
  /// Page-locked memory of the host that every device can copy to and from, never given back; null
  /// when there is none. May wait for the devices, but leaves other threads' graph captures alone.
  void* (*allocate_pinned)(std::size_t bytes) noexcept;
  /// Enqueues a copy between host and device memory, in either direction; with memory that is not
  /// page-locked the host waits for it.
  /// @return false when it could not be enqueued
  bool (*copy)(void* to, const void* from, std::size_t bytes, Stream stream) noexcept;
  /// Enqueues writing a few bytes of the host's to a device's memory. They have been read when this
  /// returns, and the host waits for nothing.
  /// @return false when it could not be enqueued
  bool (*write)(void* to, const void* from, std::size_t bytes, Stream stream) noexcept;
  /// See keep_source().
  bool (*keep_source)(const Result* result, std::uint64_t below, const void* source, void* target,
                      std::size_t bytes, Stream stream) noexcept;
  /// Whether the work that `event`, a cudaEvent_t, was recorded behind is done. Doesn't wait, and
  /// leaves other threads' graph captures alone.
  bool (*happened)(void* event) noexcept;
  /// The host waits for it. Leaves captures alone, this thread's too.
  void (*synchronize)(void* event) noexcept;
};

/// `cinch_cuda_library`, the one symbol that the library exports.
using LibraryOpen = const Library* (*)();

}  // namespace cinch::codecs::cuda
