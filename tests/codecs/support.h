// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hwy/targets.h>

#include "codecs/codec.h"
#include "codecs/element_bits.h"
#include "codecs/layout.h"
#include "codecs/reference/elements.h"

/// What the codec tests share: sources of any layout, and ways to run codecs over them.
namespace cinch::codecs::test {

using Bytes = std::vector<std::byte>;

/// Two threads, split at the grain nearest to the middle.
inline void two_threads(std::int64_t n, std::int64_t grain, ParallelForBody body, void* argument) {
  const std::int64_t middle = std::min(n, (n / 2 + grain - 1) / grain * grain);
  std::thread other([&] { body(argument, 0, middle); });
  if (middle < n) body(argument, middle, n);
  other.join();
}

/// One call for every grain, last first.
inline void every_grain(std::int64_t n, std::int64_t grain, ParallelForBody body, void* argument) {
  if (n == 0) return;
  for (std::int64_t begin = (n - 1) / grain * grain; begin >= 0; begin -= grain) {
    body(argument, begin, std::min(n, begin + grain));
  }
}

/// Runs `f(target name)` with each of Highway's targets that this machine has, one at a time.
template <typename F>
void for_each_target(const F& f) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    f(std::string(hwy::TargetName(target)));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

/// A flat tensor.
inline Description flat(std::int64_t n, ElementType type) {
  return {.type = type, .layout = PlaneLayout::rows(n, n)};
}

/// The T that begins there, aligned or not.
template <typename T>
T load(const Bytes& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// `bytes`, but with `value` there.
template <typename T>
Bytes with_value(Bytes bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
  return bytes;
}

/// Planes of `extent`, contiguous.
inline PlaneLayout contiguous(std::int64_t planes, std::array<std::int64_t, 3> extent) {
  PlaneLayout layout;
  layout.outer = planes;
  layout.extent = extent;
  layout.stride = {extent[1] * extent[2], extent[2], 1};
  layout.outer_stride = layout.plane_size();
  return layout;
}

/// `outer` samples of `inner` interleaved channels, as channels_last tensors have them.
inline PlaneLayout channels_last(std::int64_t outer, std::int64_t inner,
                                 std::array<std::int64_t, 3> extent) {
  PlaneLayout layout;
  layout.outer = outer;
  layout.inner = inner;
  layout.extent = extent;
  layout.stride = {extent[1] * extent[2] * inner, extent[2] * inner, inner};
  layout.inner_stride = 1;
  layout.outer_stride = layout.plane_size() * inner;
  return layout;
}

/// Samples (C, H, W) whose channels are interleaved, as planes of their own: what policies make of
/// channels_last tensors for codecs that take samples.
inline PlaneLayout samples_last(std::int64_t samples, std::array<std::int64_t, 3> extent) {
  PlaneLayout layout;
  layout.inner = samples;
  layout.extent = extent;
  layout.stride = {1, extent[0] * extent[2], extent[0]};
  layout.inner_stride = layout.plane_size();
  return layout;
}

/// Whether the codec is registered as one that restores bit for bit what it restores.
inline bool is_exact(const Codec& codec) {
  return codec_traits(codec.name())->fidelity == Fidelity::exact;
}

/// Bytes of a source that `layout` reaches.
inline std::size_t source_bytes(const Description& what) {
  return static_cast<std::size_t>(reach(what.layout)) * element_size_or_byte(what.type);
}

/// Bit pattern of the nearest element, also of NaNs and infinities.
inline std::uint64_t element_bits(ElementType type, float value) {
  if (std::isfinite(value)) return bits_of(type, value);
  const std::uint64_t sign = std::signbit(value) ? 1 : 0;
  return sign << (8 * element_size(type) - 1) |
         (std::isnan(value) ? bits_of_nan(type) : bits_of_infinity(type));
}

/// Sets the element at logical index `k`.
inline void set_element(const Description& what, Bytes& source, std::int64_t k, float value) {
  reference::store_bits(source.data(), reference::offset_of(what.layout, k),
                        element_size(what.type), element_bits(what.type, value));
}

inline float element(const Description& what, const Bytes& source, std::int64_t k) {
  return value_of(what.type,
                  reference::load_bits(source.data(), reference::offset_of(what.layout, k),
                                       element_size(what.type)));
}

/// A source whose elements in logical order are `values`.
inline Bytes make_source(const Description& what, const std::vector<float>& values) {
  Bytes source(source_bytes(what), std::byte{0xA5});
  for (std::size_t k = 0; k < values.size(); ++k) set_element(what, source, k, values[k]);
  return source;
}

inline std::vector<float> values_of(const Description& what, const Bytes& source) {
  std::vector<float> values(what.layout.elements());
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = element(what, source, k);
  return values;
}

/// What encoding came to, with the bytes.
struct Encoding {
  bool representable = false;
  Bytes bytes;
};

inline Encoding encode_any(const Codec& codec, const Description& what, const Bytes& source,
                           RandomKey key = {}, ParallelFor parallel = serial_for) {
  Encoding encoding = {false, Bytes(codec.encoded_bytes(what), std::byte{0x5A})};
  const Encoded encoded = codec.encode(what, source.data(), encoding.bytes, key, parallel);
  encoding.representable = encoded.representable;
  encoding.bytes.resize(encoded.bytes);
  return encoding;
}

/// Encoded bytes, or none when the source is not representable.
inline Bytes encode(const Codec& codec, const Description& what, const Bytes& source,
                    RandomKey key = {}, ParallelFor parallel = serial_for) {
  Encoding encoding = encode_any(codec, what, source, key, parallel);
  return encoding.representable ? std::move(encoding.bytes) : Bytes();
}

/// Decoded source; bytes that the layout doesn't reach are 0xA5, as in make_source.
inline Bytes decode(const Codec& codec, const Description& what, const Bytes& in,
                    Reads reads = Reads::values, ParallelFor parallel = serial_for) {
  Bytes target(source_bytes(what), std::byte{0xA5});
  if (!codec.decode(what, in, target.data(), reads, parallel)) return {};
  return target;
}

/// Whether `in` decodes to just `x`, in memory order, at addresses that vectors can and cannot
/// stream to.
inline bool decodes_at_any_address(const Codec& codec, const Description& what, const Bytes& in,
                                   const std::vector<float>& x) {
  constexpr float kUntouched = -7.0F;
  for (const std::int64_t shift : {0, 1}) {
    std::vector<float> target(x.size() + 32, kUntouched);
    const auto aligned = (64 - reinterpret_cast<std::uintptr_t>(target.data()) % 64) % 64 / 4;
    float* const y = target.data() + aligned + shift;
    if (!codec.decode(what, in, y, Reads::values, two_threads)) return false;
    if (!std::equal(x.begin(), x.end(), y) || y[x.size()] != kUntouched) return false;
  }
  return true;
}

}  // namespace cinch::codecs::test
