// SPDX-License-Identifier: Apache-2.0
#include "codecs/with_sign.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/cpu/masks/with_sign.cpp"
#include "hwy/foreach_target.h"  // must come before what it includes again
#include "hwy/highway.h"
// clang-format off
#include "codecs/cpu/masks-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {

/// x > 0 of `count` elements that T holds the bit patterns of; false when one is negative.
/// `infinity` has a zero sign, and magnitudes above it are NaNs.
template <typename T>
HWY_INLINE bool encode_positives_as(const void* x, std::int64_t count, T infinity, std::byte* out) {
  const MaskTag<T> d;
  const auto zero = hn::Zero(d);
  const auto lowest = hn::Set(d, hwy::LimitsMin<T>());  // -0
  const auto top = hn::Set(d, infinity);
  const auto negative_top = hn::Or(lowest, top);  // -infinity
  // Negative numbers, as integers: above -0, and up to -infinity.
  auto negative = hn::MaskFromVec(zero);
  masks(
      static_cast<const T*>(x), count,
      [&](auto bits) {
        negative = hn::Or(negative, hn::AndNot(hn::Gt(bits, negative_top), hn::Gt(bits, lowest)));
        return hn::AndNot(hn::Gt(bits, top), hn::Gt(bits, zero));
      },
      reinterpret_cast<std::uint8_t*>(out));
  return hn::AllFalse(d, negative);
}

bool encode_positives(std::size_t size, const void* x, std::int64_t count, std::uint32_t infinity,
                      std::byte* out) {
  return size == 4 ? encode_positives_as(x, count, static_cast<std::int32_t>(infinity), out)
                   : encode_positives_as(x, count, static_cast<std::int16_t>(infinity), out);
}

/// Zeroes the elements whose bits are 0, but for NaNs.
template <typename T>
HWY_INLINE void zero_others_as(const std::uint8_t* HWY_RESTRICT bits, std::int64_t count,
                               T infinity, T* HWY_RESTRICT x) {
  const MaskTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto magnitude_mask = hn::Set(d, hwy::LimitsMax<T>());
  const auto top = hn::Set(d, infinity);
  std::int64_t i = 0;
  if (lanes >= 8) {
    // Highway may load 8 bytes wherever a mask begins.
    for (; i + lanes + 64 <= count; i += lanes) {
      const auto v = hn::LoadU(d, x + i);
      const auto keep =
          hn::Or(hn::LoadMaskBits(d, bits + i / 8), hn::Gt(hn::And(v, magnitude_mask), top));
      hn::StoreU(hn::IfThenElseZero(keep, v), d, x + i);
    }
  }
  for (; i < count; ++i) {
    const bool is_nan = (x[i] & hwy::LimitsMax<T>()) > infinity;
    if ((bits[i / 8] >> (i % 8) & 1U) == 0 && !is_nan) x[i] = 0;
  }
}

void zero_others(std::size_t size, const std::byte* bits, std::int64_t count,
                 std::uint32_t infinity, void* x) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(bits);
  if (size == 4) {
    zero_others_as(from, count, static_cast<std::int32_t>(infinity), static_cast<std::int32_t*>(x));
  } else {
    zero_others_as(from, count, static_cast<std::int16_t>(infinity), static_cast<std::int16_t*>(x));
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <algorithm>
#include <atomic>
#include <span>

#include "codecs/cpu/planes.h"
#include "codecs/cpu/runs.h"
#include "codecs/element_bits.h"
#include "codecs/sign.h"

namespace cinch::codecs {
namespace {

HWY_EXPORT(encode_positives);
HWY_EXPORT(zero_others);

class WithSignCpu final : public WithSignCodec {
 public:
  using WithSignCodec::WithSignCodec;

  Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                 RandomKey key, ParallelFor parallel) const override {
    const std::size_t size = element_size(what.type);
    const auto before = static_cast<std::size_t>(with_sign_bytes(what.layout));
    const auto bits = static_cast<std::size_t>(bytes_for_bits(what.layout.elements()));
    std::fill(out.begin() + bits, out.begin() + before, std::byte{0});
    const auto kernel = HWY_DYNAMIC_DISPATCH(encode_positives);
    std::atomic<bool> negative = false;
    const bool good = cpu::read_runs(
        what, source, parallel, [&](std::int64_t begin, std::int64_t count, const void* run) {
          if (!kernel(size, run, count, bits_of_infinity(what.type), out.data() + begin / 8)) {
            negative.store(true, std::memory_order_relaxed);
          }
          return true;
        });
    const Encoded encoded = inner().encode(what, source, out.subspan(before), key, parallel);
    return {encoded.representable && good && !negative.load(), before + encoded.bytes};
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              ParallelFor parallel) const override {
    if (!can_decode(what, in.size(), reads)) return false;
    if (reads == Reads::sign) return sign_->decode(what, in, target, reads, parallel);
    const auto before = static_cast<std::size_t>(with_sign_bytes(what.layout));
    return inner().decode(what, in.subspan(before), target, reads, parallel) &&
           zero_where_clear(what, in.data(), target, parallel);
  }

 private:
  static bool zero_where_clear(const Description& what, const std::byte* bits, void* target,
                               ParallelFor parallel) {
    const auto size = static_cast<std::int64_t>(element_size(what.type));
    const auto kernel = HWY_DYNAMIC_DISPATCH(zero_others);
    const std::uint32_t infinity = bits_of_infinity(what.type);
    const PlaneLayout& layout = what.layout;
    if (layout.is_contiguous()) {
      for_range(parallel, layout.elements(), cpu::kRunElements,
                [&](std::int64_t begin, std::int64_t end) {
                  kernel(size, bits + begin / 8, end - begin, infinity,
                         static_cast<std::byte*>(target) + begin * size);
                });
      return true;
    }
    std::atomic<bool> good = true;
    const std::int64_t tile = cpu::planes_per_tile(layout, size);
    for_range(parallel, layout.planes(), tile, [&](std::int64_t begin, std::int64_t end) {
      auto* const run = cpu::workspace().tile.get<std::byte>(tile * layout.plane_size() * size);
      if (run == nullptr) good.store(false);
      for (std::int64_t p = begin; p < end && good.load(std::memory_order_relaxed); p += tile) {
        const std::int64_t count = std::min(tile, end - p);
        cpu::gather_planes(layout, size, target, p, count, run);
        kernel(size, bits + p * layout.plane_size() / 8, count * layout.plane_size(), infinity,
               run);
        cpu::scatter_planes(layout, size, run, p, count, target);
      }
      cpu::workspace().tile.trim();
    });
    return good.load();
  }

  std::shared_ptr<const Codec> sign_ = make_sign_cpu();
};

}  // namespace

std::shared_ptr<const Codec> make_with_sign_cpu(std::shared_ptr<const Codec> inner) {
  return std::make_shared<WithSignCpu>(std::move(inner));
}

}  // namespace cinch::codecs

#endif  // HWY_ONCE
