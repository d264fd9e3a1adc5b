// SPDX-License-Identifier: Apache-2.0
#include "codecs/interval.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/masks/interval.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/masks-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {

/// Whether the keys of `count` elements, whose bit patterns T holds, lie strictly between those of
/// `bounds`; false when there is a NaN, whose pattern without the sign lies above that of
/// `infinity`.
template <typename T>
HWY_INLINE bool encode_inside_as(const void* x, std::int64_t count, const IntervalPatterns& bounds,
                                 std::uint64_t infinity, std::byte* out) {
  const MaskTag<T> d;
  const auto magnitude_mask = hn::Set(d, hwy::LimitsMax<T>());
  const auto below = hn::Set(d, static_cast<T>(bounds.below));
  const auto above = hn::Set(d, static_cast<T>(bounds.above));
  auto largest = hn::Zero(d);
  masks(
      static_cast<const T*>(x), count,
      [&](auto bits) {
        largest = hn::Max(largest, hn::And(bits, magnitude_mask));
        const auto negative = hn::ShiftRight<8 * sizeof(T) - 1>(bits);
        const auto key = hn::Xor(bits, hn::And(negative, magnitude_mask));
        return hn::And(hn::Gt(key, below), hn::Lt(key, above));
      },
      reinterpret_cast<std::uint8_t*>(out));
  return hn::AllFalse(d, hn::Gt(largest, hn::Set(d, static_cast<T>(infinity))));
}

bool encode_inside(std::size_t size, const void* x, std::int64_t count,
                   const IntervalPatterns& bounds, std::uint64_t infinity, std::byte* out) {
  return size == 4 ? encode_inside_as<std::int32_t>(x, count, bounds, infinity, out)
                   : encode_inside_as<std::int16_t>(x, count, bounds, infinity, out);
}

void decode_inside(std::size_t size, const std::byte* in, std::int64_t count,
                   const IntervalPatterns& patterns, void* x) {
  const auto* bits = reinterpret_cast<const std::uint8_t*>(in);
  const auto write = [&]<typename T>(T* to) {
    select(bits, count, static_cast<T>(patterns.inside), static_cast<T>(patterns.outside), to);
  };
  if (size == 4) {
    write(static_cast<std::uint32_t*>(x));
  } else {
    write(static_cast<std::uint16_t*>(x));
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <span>

#include "codecs/cpu/runs.h"
#include "codecs/element_bits.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(encode_inside);
HWY_EXPORT(decode_inside);

class IntervalCpu final : public IntervalCodec {
 public:
  using IntervalCodec::IntervalCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey /*key*/, ParallelFor parallel) const override {
    const std::size_t size = element_size(what.type);
    const auto kernel = HWY_DYNAMIC_DISPATCH(encode_inside);
    const bool good = cpu::read_runs(
        what, source, parallel, [&](std::int64_t begin, std::int64_t count, const void* run) {
          return kernel(size, run, count, patterns(what.type), bits_of_infinity(what.type),
                        out.data() + begin / 8);
        });
    return {good, good ? encoded_bytes(what) : 0};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    const std::size_t size = element_size(what.type);
    const auto kernel = HWY_DYNAMIC_DISPATCH(decode_inside);
    return cpu::write_runs(what, target, parallel,
                           [&](std::int64_t begin, std::int64_t count, void* run) {
                             kernel(size, in.data() + begin / 8, count, patterns(what.type), run);
                           });
  }
};

}  // namespace

std::shared_ptr<const Codec> make_interval_cpu(IntervalBounds bounds) {
  return std::make_shared<IntervalCpu>(bounds);
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
