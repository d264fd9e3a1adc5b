// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_NARROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_NARROW_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_NARROW_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_NARROW_INL_H_
#endif

#include <bit>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Indices of 32-bit lanes that put the quarters of all 16-byte blocks together: first the first
/// quarters, block by block, then the second ones, and so on.
template <class D32>
HWY_INLINE auto by_quarter(D32 d32) {
  const auto blocks = static_cast<std::uint32_t>(hn::Lanes(d32) / 4);
  const auto i = hn::Iota(d32, 0);
  const auto block = hn::And(i, hn::Set(d32, blocks - 1));
  const auto quarter = hn::ShiftRightSame(i, std::countr_zero(blocks));
  return hn::IndicesFromVec(d32, hn::Or(hn::ShiftLeft<2>(block), quarter));
}

/// The same with halves of blocks.
template <class D32>
HWY_INLINE auto by_half(D32 d32) {
  const auto blocks = static_cast<std::uint32_t>(hn::Lanes(d32) / 4);
  const auto one = hn::Set(d32, 1);
  const auto i = hn::Iota(d32, 0);
  const auto half = hn::ShiftRightSame(i, std::countr_zero(2 * blocks));
  const auto block = hn::And(hn::ShiftRight<1>(i), hn::Set(d32, blocks - 1));
  return hn::IndicesFromVec(
      d32, hn::Or(hn::Or(hn::ShiftLeft<2>(block), hn::ShiftLeft<1>(half)), hn::And(i, one)));
}

/// The inverse of by_half.
template <class D32>
HWY_INLINE auto from_half(D32 d32) {
  const auto blocks = static_cast<std::uint32_t>(hn::Lanes(d32) / 4);
  const auto one = hn::Set(d32, 1);
  const auto i = hn::Iota(d32, 0);
  const auto block = hn::ShiftLeft<1>(hn::ShiftRight<2>(i));
  const auto half = hn::And(hn::ShiftRight<1>(i), one);
  return hn::IndicesFromVec(
      d32, hn::Or(hn::Or(block, hn::ShiftLeftSame(half, std::countr_zero(2 * blocks))),
                  hn::And(i, one)));
}

/// The low bytes of 16-bit lanes, those of four vectors one after the other: even lanes of `v01`
/// are the first vector's, odd lanes the second one's, and so on.
template <class D16, class V16>
HWY_INLINE auto bytes_of_quarters(D16 d16, V16 v01, V16 v23) {
  const hn::Repartition<std::uint8_t, D16> d8;
  const hn::Repartition<std::uint32_t, D16> d32;
  alignas(16) static constexpr std::uint8_t kGather[16] = {0, 4, 8, 12, 2, 6, 10, 14,
                                                           1, 5, 9, 13, 3, 7, 11, 15};
  const auto bytes =
      hn::BitCast(d8, hn::Or(hn::And(v01, hn::Set(d16, 0xFF)), hn::ShiftLeft<8>(v23)));
  const auto quarters = hn::TableLookupBytes(bytes, hn::LoadDup128(d8, kGather));
  return hn::BitCast(d8, hn::TableLookupLanes(hn::BitCast(d32, quarters), by_quarter(d32)));
}

/// The low bytes of the 16-bit lanes of `v0`, then those of `v1`.
template <class D16, class V16>
HWY_INLINE auto bytes_of_halves(D16 d16, V16 v0, V16 v1) {
  const hn::Repartition<std::uint8_t, D16> d8;
  const hn::Repartition<std::uint32_t, D16> d32;
  alignas(16) static constexpr std::uint8_t kGather[16] = {0, 2, 4, 6, 8, 10, 12, 14,
                                                           1, 3, 5, 7, 9, 11, 13, 15};
  const auto bytes = hn::BitCast(d8, hn::Or(hn::And(v0, hn::Set(d16, 0xFF)), hn::ShiftLeft<8>(v1)));
  const auto halves = hn::TableLookupBytes(bytes, hn::LoadDup128(d8, kGather));
  return hn::BitCast(d8, hn::TableLookupLanes(hn::BitCast(d32, halves), by_half(d32)));
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
