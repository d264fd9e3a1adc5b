// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "codecs/codec.h"

struct CUstream_st;

/// The CUDA engine. It writes the same bytes as the reference engine.
namespace cinch::codecs::cuda {

/// A cudaStream_t.
using Stream = CUstream_st*;

/// The result of one encode, in device memory, or in host memory that the device can write to. The
/// caller must zero it before it enqueues the encode.
///
/// If only the data decide the encoded size (CodecTraits::sized_by_data), `bytes` is written last,
/// by one store, and is not 0: a host that sees it knows the result, though the encoded data may
/// not be whole before the stream has run the encode's kernels.
struct Result {
  std::uint64_t bytes;              ///< encoded size, as Encoded::bytes
  std::uint32_t not_representable;  ///< non-zero means Encoded::representable = false
  std::uint32_t reserved;
};

/// The CUDA side of a codec. Its calls only enqueue kernels: they never allocate, wait, or copy
/// between host and device, so a CUDA graph can capture them.
///
/// Immutable and thread-safe. All pointers are device pointers of the current device, except those
/// that `Description` puts in host memory, and `result`. They must stay valid until the stream has
/// run the call's kernels. The host codec of the same spec answers what needs no device: sizes,
/// restores, exact.
class DeviceCodec {
 public:
  DeviceCodec() = default;
  DeviceCodec(const DeviceCodec&) = delete;
  DeviceCodec& operator=(const DeviceCodec&) = delete;
  virtual ~DeviceCodec() = default;

  /// Whether this engine takes data of this description. If so, the host codec accepts it too.
  virtual bool accepts(const Description& what) const noexcept = 0;

  /// Bytes of device memory that encode and decode need as scratch. They leave it undefined.
  virtual std::size_t scratch_bytes(const Description& /*what*/) const noexcept { return 0; }

  /// Encodes the elements at `source` to `out`.
  /// @pre accepts(what); `out` has room for the host codec's `encoded_bytes(what)`; `source` is
  /// aligned to its element size, `out` and `scratch` to 16 bytes
  /// @return false when a kernel could not be launched; `out` may then hold garbage
  virtual bool encode(const Description& what, const void* source, std::byte* out, Result* result,
                      void* scratch, RandomKey key, Stream stream) const noexcept = 0;

  /// Restores what the host codec's `decode` would. `in` is what encode wrote, all of it or its
  /// first `Result::bytes`. Any other bytes give arbitrary values, but no access out of bounds.
  /// @pre accepts(what), reads != nothing, and the host codec restores `reads`
  /// @return false when a kernel could not be launched or `in` is certainly too short
  virtual bool decode(const Description& what, std::span<const std::byte> in, void* target,
                      Reads reads, void* scratch, Stream stream) const noexcept = 0;
};

/// The codec that `spec` names, or null when the name is unknown, a parameter is out of range, or
/// the codec exists only for the CPU. Encodes keep no state: `error_bounded_ratio` makes a new plan
/// for each encode, as the host codec does for its first.
std::shared_ptr<const DeviceCodec> make_device_codec(const CodecSpec& spec);

}  // namespace cinch::codecs::cuda
