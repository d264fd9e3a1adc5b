// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_CODE_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_CODE_VALUES_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_CODE_VALUES_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_CODE_VALUES_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/vectors/narrow-inl.h"
#include "codecs/element_bits.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Conversion of codes, one a byte, to elements. value(df, codes) turns a vector of codes, as
// floats, into a vector of their values. It is passed by value, so that its members stay in
// registers while elements are stored.

/// Destination of elements: x, of which `writable` elements may be written, perhaps more than there
/// are. past_caches: with non-temporal stores, and then nothing past the elements is written.
template <typename T>
struct Target {
  T* x;
  std::int64_t writable;
  bool past_caches;
};

/// Writes `count` elements from `count` codes, a block of `block` at a time: kernel(codes, store)
/// calls store(i, vector) to store a vector at element i of the block. Reads up to a vector of
/// codes past the end.
template <class D, class F>
HWY_INLINE void write_blocks(D d, const std::uint8_t* HWY_RESTRICT codes, std::int64_t count,
                             std::int64_t block, Target<hn::TFromD<D>> target, const F& kernel) {
  hn::TFromD<D>* HWY_RESTRICT const x = target.x;
  std::int64_t i = 0;
  if (target.past_caches &&
      reinterpret_cast<std::uintptr_t>(x) % (hn::Lanes(d) * sizeof(*x)) == 0) {
    for (; i + block <= count; i += block) {
      kernel(codes + i, [&](std::size_t at, auto v) HWY_ATTR { hn::Stream(v, d, x + i + at); });
    }
  } else {
    const std::int64_t writable = target.past_caches ? count : target.writable;
    for (; i < count && i + block <= writable; i += block) {
      kernel(codes + i, [&](std::size_t at, auto v) HWY_ATTR { hn::StoreU(v, d, x + i + at); });
    }
  }
  if (i >= count) return;
  HWY_ALIGN hn::TFromD<D> rest[2 * HWY_MAX_BYTES];
  kernel(codes + i, [&](std::size_t at, auto v) HWY_ATTR { hn::StoreU(v, d, rest + at); });
  std::memcpy(x + i, rest, (count - i) * sizeof(*x));
}

template <class F>
HWY_INLINE void write_values(Float32, const std::uint8_t* HWY_RESTRICT codes, std::int64_t count,
                             int /*bits*/, Target<float> target, F value) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<std::uint8_t, decltype(df)> d8;
  write_blocks(df, codes, count, static_cast<std::int64_t>(hn::Lanes(df)), target,
               [&](const std::uint8_t* code, const auto& store) HWY_ATTR {
                 store(0, value(df, hn::ConvertTo(df, hn::PromoteTo(di, hn::LoadU(d8, code)))));
               });
}

/// The first floats that are integers. (In Highway 1.0 Iota stores and loads them.)
HWY_ALIGN inline constexpr float kFirstIntegers[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                       8, 9, 10, 11, 12, 13, 14, 15};

/// The low bytes of 32-bit lanes of numbers(i), which has those from i on, for i up to 15.
template <class D, class F>
HWY_INLINE void bytes_of_sixteen(D d, const F& numbers, std::uint8_t* HWY_RESTRICT bytes) {
  const hn::Rebind<std::uint8_t, D> d8;
#if !HWY_HAVE_SCALABLE
  if constexpr (hn::MaxLanes(D()) == 8) {  // stored at once, as they are loaded
    const hn::Full128<std::uint8_t> both;
    hn::Store(hn::Combine(both, hn::TruncateTo(d8, numbers(8)), hn::TruncateTo(d8, numbers(0))),
              both, bytes);
    return;
  }
#endif
  for (std::size_t i = 0; i < 16; i += hn::Lanes(d)) {
    hn::StoreU(hn::TruncateTo(d8, numbers(i)), d8, bytes + i);
  }
}

/// For 4 bits or fewer: looks up the elements' bit patterns, low and high bytes separately.
template <class S, class F>
HWY_INLINE void look_values_up(S, const std::uint8_t* HWY_RESTRICT codes, std::int64_t count,
                               Target<std::uint16_t> target, F value) {
  const hn::CappedTag<float, 16> df;
  alignas(16) std::uint8_t low_bytes[16];
  alignas(16) std::uint8_t high_bytes[16];
  const auto bits = [&](std::size_t i) HWY_ATTR {
    return S::bits(df, value(df, hn::LoadU(df, kFirstIntegers + i)));
  };
  const hn::RebindToUnsigned<decltype(df)> du;
  bytes_of_sixteen(du, bits, low_bytes);
  bytes_of_sixteen(
      du, [&](std::size_t i) HWY_ATTR { return hn::ShiftRight<8>(bits(i)); }, high_bytes);
  const hn::ScalableTag<std::uint8_t> d8;
  const hn::Repartition<std::uint16_t, decltype(d8)> d16;
  const hn::Repartition<std::uint32_t, decltype(d8)> d32;
  const auto low = hn::LoadDup128(d8, low_bytes);
  const auto high = hn::LoadDup128(d8, high_bytes);
  // Interleaving takes the first halves of all 16-byte blocks, then the second ones.
  const auto order = from_half(d32);
  write_blocks(d16, codes, count, static_cast<std::int64_t>(hn::Lanes(d8)), target,
               [&](const std::uint8_t* code, const auto& store) HWY_ATTR {
                 const auto loaded = hn::BitCast(d32, hn::LoadU(d8, code));
                 const auto c = hn::BitCast(d8, hn::TableLookupLanes(loaded, order));
                 const auto l = hn::TableLookupBytes(low, c);
                 const auto h = hn::TableLookupBytes(high, c);
                 store(0, hn::BitCast(d16, hn::InterleaveLower(d8, l, h)));
                 store(hn::Lanes(d16), hn::BitCast(d16, hn::InterleaveUpper(d8, l, h)));
               });
}

template <class S, class F>
HWY_INLINE void write_values(S kind, const std::uint8_t* HWY_RESTRICT codes, std::int64_t count,
                             int bits, Target<std::uint16_t> target, F value) {
  if (bits <= 4) {
    look_values_up(kind, codes, count, target, value);
    return;
  }
  const hn::ScalableTag<float> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Repartition<std::uint16_t, decltype(df)> d16;
  const hn::Rebind<std::uint8_t, decltype(d16)> d8;
  const auto float_of = [&](auto code) HWY_ATTR {
    return value(df, hn::ConvertTo(df, hn::BitCast(di, code)));
  };
  write_blocks(d16, codes, count, static_cast<std::int64_t>(hn::Lanes(d16)), target,
               [&](const std::uint8_t* code, const auto& store) HWY_ATTR {
                 const auto pairs = hn::BitCast(du, hn::PromoteTo(d16, hn::LoadU(d8, code)));
                 store(0, S::pairs(df, float_of(hn::And(pairs, hn::Set(du, 0xFF))),
                                   float_of(hn::ShiftRight<16>(pairs))));
               });
}

/// The NaN that poisoned elements decode to.
template <class S>
HWY_INLINE typename S::Raw nan_of(S) {
  const std::uint32_t bits = bits_of_nan(S::kType);
  typename S::Raw nan;
  std::memcpy(&nan, &bits, sizeof nan);
  return nan;
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
