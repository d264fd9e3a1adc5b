// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_PHILOX_INL_H_
#undef CINCH_CODECS_CPU_PHILOX_INL_H_
#else
#define CINCH_CODECS_CPU_PHILOX_INL_H_
#endif

#include <cstdint>

#include "codecs/philox.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Writes the 8 * blocks draws of blocks [first, first + blocks), in the order of their elements,
/// and up to a vector of blocks beyond. One block a 64-bit lane; only lanes' low halves count.
HWY_INLINE void fill_draws(RandomKey key, std::uint64_t first, std::int64_t blocks,
                           std::uint16_t* HWY_RESTRICT draws) {
  const hn::ScalableTag<std::uint64_t> d64;
  const hn::Repartition<std::uint32_t, decltype(d64)> d32;
  const auto narrow = [&](auto v) { return hn::BitCast(d32, v); };
  const auto low_half = hn::Set(d64, 0xFFFFFFFFU);
  const auto multiplier0 = hn::Set(d32, philox::kMultiplier0);
  const auto multiplier1 = hn::Set(d32, philox::kMultiplier1);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d64));

  auto index = hn::Iota(d64, first);
  const auto next = hn::Set(d64, static_cast<std::uint64_t>(lanes));
  for (std::int64_t block = 0; block < blocks; block += lanes) {
    auto c0 = index;
    index = hn::Add(index, next);
    auto c1 = hn::ShiftRight<32>(c0);
    auto c2 = hn::Set(d64, key.step);
    auto c3 = hn::Set(d64, key.step >> 32);
    std::uint32_t key0 = key.seed;
    std::uint32_t key1 = key.entry;
    for (int round = 0; round < philox::kRounds; ++round) {
      const auto product0 = hn::MulEven(narrow(c0), multiplier0);
      const auto product1 = hn::MulEven(narrow(c2), multiplier1);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), c1), hn::Set(d64, std::uint64_t{key0}));
      c1 = product1;
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), c3), hn::Set(d64, std::uint64_t{key1}));
      c3 = product0;
      key0 += philox::kWeyl0;
      key1 += philox::kWeyl1;
    }
    const auto words01 = hn::Or(hn::And(c0, low_half), hn::ShiftLeft<32>(c1));
    const auto words23 = hn::Or(hn::And(c2, low_half), hn::ShiftLeft<32>(c3));
    hn::StoreInterleaved2(words01, words23, d64,
                          reinterpret_cast<std::uint64_t*>(draws + block * philox::kDrawsPerBlock));
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
