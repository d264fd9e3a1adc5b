// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "codecs/cuda/codec.h"
#include "codecs/cuda/curvature/without_bias.h"
#include "codecs/cuda/masks/keep_where.h"
#include "codecs/cuda/norms/channels.h"
#include "codecs/cuda/norms/normalize.h"
#include "codecs/cuda/pointwise/program.h"

namespace cinch::codecs::cuda {

/// Increase this with every change to Library, DeviceCodec or the types that their functions take.
/// The core and this library ship together; the core must not use a library of another version.
inline constexpr std::uint32_t library_abi = 13;

/// How far work of a device is.
enum class Progress : std::uint8_t { pending, done, failed };

/// The functions of libcinch_cuda.so. The CUDA engine is a library of its own, so the core needs no
/// CUDA and processes without a GPU never load the kernels. All functions are thread-safe.
struct Library {
  std::uint32_t abi;
  /// make_device_codec(), for the current device.
  std::shared_ptr<const DeviceCodec> (*make_codec)(const CodecSpec& spec);
  /// load(), for the current device.
  bool (*load)(const DeviceCodec& codec, const Description& what) noexcept;
  /// Whether a CUDA graph is recording `stream`'s work.
  bool (*is_capturing)(Stream stream) noexcept;
  /// Makes a stream of the current device with the lowest priority, which the default stream does
  /// not wait for. It is never destroyed. Kernels that take any number of blocks get few in it: see
  /// OwnStreams. Null when CUDA makes none. Ends no graph captures.
  Stream (*make_stream)() noexcept;
  /// Page-locked host memory that every device can copy to and from, and kernels write to at the
  /// same address; or null. It is never freed. May wait for the devices, but does not end other
  /// threads' graph captures.
  void* (*allocate_pinned)(std::size_t bytes) noexcept;
  /// Enqueues a copy between host and device memory, in either direction. If the host memory is not
  /// page-locked, the host waits for the copy.
  /// @return false when it could not be enqueued
  bool (*copy)(void* to, const void* from, std::size_t bytes, Stream stream) noexcept;
  /// Enqueues writing a few bytes of host memory to device memory. It reads them before it returns,
  /// and the host does not wait.
  /// @return false when it could not be enqueued
  bool (*write)(void* to, const void* from, std::size_t bytes, Stream stream) noexcept;
  /// See keep_source().
  bool (*keep_source)(const Result* result, std::uint64_t below, const void* source, void* target,
                      std::size_t bytes, Stream stream) noexcept;
  /// See without_bias.h.
  bool (*apply_without_bias)(Smooth function, ElementType type, const GroupRanges& of,
                             const Rows& rows, const void* x, void* y, Stream stream) noexcept;
  /// See keep_where.h.
  bool (*keep_where)(std::size_t size, std::int64_t elements, const std::byte* bits, const void* x,
                     void* y, Stream stream) noexcept;
  /// See normalize.h.
  bool (*normalize_rows)(ElementType from, ElementType to, const RowNorm& norm, const void* x,
                         void* y, Stream stream) noexcept;
  /// See channels.h.
  bool (*normalize_channels)(ElementType type, const ChannelNorm& norm, const void* x, void* y,
                             Stream stream) noexcept;
  /// See program.h.
  bool (*apply_program)(const Program& program, std::int64_t elements, ElementType type, void* y,
                        Stream stream) noexcept;
  /// How far the work before `event` (a cudaEvent_t) is. Does not wait, and does not end other
  /// threads' graph captures.
  Progress (*progress)(void* event) noexcept;
  /// Makes the host wait for `event`. Ends no graph captures, not even this thread's.
  void (*synchronize)(void* event) noexcept;
};

/// The type of `cinch_cuda_library`, the only symbol that the library exports.
using LibraryOpen = const Library* (*)();

}  // namespace cinch::codecs::cuda
