// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_ZERO_VALUE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_ZERO_VALUE_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_ZERO_VALUE_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_ZERO_VALUE_INL_H_
#endif

#include <bit>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/zero_value_tables.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Number of 1 bits in `bytes` bytes.
inline HWY_NOINLINE std::int64_t count_ones(const std::uint8_t* HWY_RESTRICT mask,
                                            std::int64_t bytes) {
  std::int64_t ones = 0;
  std::int64_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, mask + i, 8);
    ones += std::popcount(word);
  }
  for (; i < bytes; ++i) ones += std::popcount(mask[i]);
  return ones;
}

/// D's mask of the bits from bit `i` on. @pre a vector is readable past the mask
template <class D>
HWY_INLINE auto mask_at(D d, const std::uint8_t* mask, std::int64_t i) {
  if (hn::Lanes(d) >= 8) return hn::LoadMaskBits(d, mask + i / 8);
  const std::uint8_t some[8] = {static_cast<std::uint8_t>(mask[i / 8] >> (i % 8))};
  return hn::LoadMaskBits(d, some);
}

/// Moves consecutive codes to the places of the mask's ones; the places of zeros get anything.
/// @pre eight codes are readable past the last one
inline HWY_NOINLINE void spread_codes(const std::uint8_t* HWY_RESTRICT mask,
                                      std::int64_t mask_bytes,
                                      const std::uint8_t* HWY_RESTRICT codes,
                                      std::uint8_t* HWY_RESTRICT spread) {
  const hn::FixedTag<std::uint8_t, 8> d;
  for (std::int64_t i = 0; i < mask_bytes; ++i) {
    const auto order = hn::LoadU(d, cpu::kSpread8[mask[i]].data());
    hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, codes), order), d, spread + 8 * i);
    codes += std::popcount(mask[i]);
  }
}
inline HWY_NOINLINE void spread_codes(const std::uint8_t* HWY_RESTRICT mask,
                                      std::int64_t mask_bytes,
                                      const std::uint16_t* HWY_RESTRICT codes,
                                      std::uint16_t* HWY_RESTRICT spread) {
  const hn::FixedTag<std::uint16_t, 8> d;
  const hn::Repartition<std::uint8_t, decltype(d)> d8;
  for (std::int64_t i = 0; i < mask_bytes; ++i) {
    const auto order = hn::LoadU(d8, cpu::kSpread16[mask[i]].data());
    const auto some = hn::BitCast(d8, hn::LoadU(d, codes));
    hn::StoreU(hn::BitCast(d, hn::TableLookupBytes(some, order)), d, spread + 8 * i);
    codes += std::popcount(mask[i]);
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
