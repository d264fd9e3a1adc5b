// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "codecs/codec.h"

struct CUstream_st;

/// The CUDA engine. Its bytes are the reference engine's.
namespace cinch::codecs::cuda {

/// A cudaStream_t.
using Stream = CUstream_st*;

/// What an encode came to, in device memory, written in stream order. The caller zeroes it before
/// the encode is enqueued, which can be done for many at once.
struct Result {
  std::uint64_t bytes;              ///< as Encoded::bytes
  std::uint32_t not_representable;  ///< non-zero: as Encoded::representable = false
  std::uint32_t reserved;
};

/// The CUDA side of a codec: enqueues kernels, and nothing else. It neither allocates nor waits nor
/// copies between host and device, so that its calls can be captured in a CUDA graph.
///
/// Immutable and thread-safe. All pointers but those that `Description` puts in host memory are
/// device pointers of the current device, and must stay valid until the stream has passed the call.
/// What needs no device (sizes, what is restored, whether it is exact) is the host codec's to say.
class DeviceCodec {
 public:
  DeviceCodec() = default;
  DeviceCodec(const DeviceCodec&) = delete;
  DeviceCodec& operator=(const DeviceCodec&) = delete;
  virtual ~DeviceCodec() = default;

  /// Whether this engine takes data of this description; implies the host codec's `accepts`.
  virtual bool accepts(const Description& what) const noexcept = 0;

  /// Device memory that encode and decode use and leave undefined, aligned to 16 bytes.
  virtual std::size_t scratch_bytes(const Description& /*what*/) const noexcept { return 0; }

  /// Encodes the elements at `source` to `out`, which has room for the host codec's
  /// `encoded_bytes(what)`. `source` is aligned to its elements, `out` and `scratch` to 16 bytes.
  /// @pre accepts(what)
  /// @return false when a kernel could not be launched; nothing was written then, or garbage
  virtual bool encode(const Description& what, const void* source, std::byte* out, Result* result,
                      void* scratch, RandomKey key, Stream stream) const noexcept = 0;

  /// Restores what the host codec's `decode` would. `in` is what encode wrote, whole or up to
  /// `Result::bytes`; bytes that encode didn't write may give any values, but no access out of
  /// bounds.
  /// @pre accepts(what), reads != nothing, and the host codec restores `reads`
  /// @return false when a kernel could not be launched or `in` is certainly too short
  virtual bool decode(const Description& what, std::span<const std::byte> in, void* target,
                      Reads reads, void* scratch, Stream stream) const noexcept = 0;
};

/// The codec that `spec` names, or null when CUDA has none: the name is unknown, a parameter out of
/// range, or the codec is for the CPU only. Each encode is as the host codec's first:
/// `error_bounded_ratio` makes its plan anew.
std::shared_ptr<const DeviceCodec> make_device_codec(const CodecSpec& spec);

}  // namespace cinch::codecs::cuda
