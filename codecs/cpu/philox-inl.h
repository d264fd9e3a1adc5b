// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_PHILOX_INL_H_
#undef CINCH_CODECS_CPU_PHILOX_INL_H_
#else
#define CINCH_CODECS_CPU_PHILOX_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "codecs/cpu/workspace.h"
#include "codecs/philox.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A vector of Philox counters, one a 64-bit lane of which only the low half counts.
template <class V>
struct PhiloxCounters {
  V c0, c1, c2, c3;
};

/// Round `round` of `key`, as philox::encipher has it.
template <class D64, class V>
HWY_INLINE void philox_round(D64 d64, RandomKey key, std::uint32_t round, PhiloxCounters<V>& c) {
  const hn::Repartition<std::uint32_t, D64> d32;
  const auto key0 = hn::Set(d64, std::uint64_t{key.seed + round * philox::kWeyl0});
  const auto key1 = hn::Set(d64, std::uint64_t{key.entry + round * philox::kWeyl1});
  const V product0 = hn::MulEven(hn::BitCast(d32, c.c0), hn::Set(d32, philox::kMultiplier0));
  const V product1 = hn::MulEven(hn::BitCast(d32, c.c2), hn::Set(d32, philox::kMultiplier1));
  c.c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), c.c1), key0);
  c.c1 = product1;
  c.c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), c.c3), key1);
  c.c3 = product0;
}

/// Vectors of counters that are enciphered side by side, so that none waits for its own products;
/// as many as registers hold.
inline constexpr int kPhiloxVectors = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3 ? 4 : 2;

/// fill_draws for blocks whose indices' high halves are the same.
HWY_INLINE void fill_draws_of_half(RandomKey key, std::uint64_t first, std::int64_t blocks,
                                   std::uint16_t* HWY_RESTRICT draws) {
  const hn::ScalableTag<std::uint64_t> d64;
  const hn::Repartition<std::uint32_t, decltype(d64)> d32;
  using V = hn::Vec<decltype(d64)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d64));
  const auto set = [&](std::uint64_t x) { return hn::Set(d64, x); };

  // Only the index's low half varies: what the first two rounds make of the rest is the same for
  // all blocks.
  const std::uint64_t step_product = std::uint64_t{philox::kMultiplier1} * std::uint32_t(key.step);
  const std::uint64_t c0_product = std::uint64_t{philox::kMultiplier0} *
                                   std::uint32_t(step_product >> 32 ^ first >> 32 ^ key.seed);
  const V c0_mask = set(std::uint32_t(step_product) ^ (key.seed + philox::kWeyl0));
  const V c2_mask1 = set(std::uint32_t(key.step >> 32) ^ key.entry);
  const V c2_mask2 = set(std::uint32_t(c0_product >> 32) ^ (key.entry + philox::kWeyl1));
  const V c3 = set(c0_product);

  // Even lanes count through the first half of a vector's blocks, odd ones through the second:
  // interleaving then puts them in order.
  const V iota = hn::Iota(d64, 0);
  const V second =
      hn::BitCast(d64, hn::MulEven(hn::BitCast(d32, hn::And(iota, set(1))),
                                   hn::Set(d32, static_cast<std::uint32_t>(lanes / 2))));
  V index = hn::Add(hn::Add(set(first), hn::ShiftRight<1>(iota)), second);
  for (std::int64_t block = 0; block < blocks; block += kPhiloxVectors * lanes) {
    PhiloxCounters<V> counters[kPhiloxVectors];
    for (PhiloxCounters<V>& c : counters) {
      const V product = hn::MulEven(hn::BitCast(d32, index), hn::Set(d32, philox::kMultiplier0));
      const V c2 = hn::Xor(hn::ShiftRight<32>(product), c2_mask1);
      c.c1 = hn::MulEven(hn::BitCast(d32, c2), hn::Set(d32, philox::kMultiplier1));
      c.c0 = hn::Xor(hn::ShiftRight<32>(c.c1), c0_mask);
      c.c2 = hn::Xor(product, c2_mask2);
      c.c3 = c3;
      index = hn::Add(index, set(static_cast<std::uint64_t>(lanes)));
    }
    for (std::uint32_t round = 2; round < philox::kRounds; ++round) {
      for (PhiloxCounters<V>& c : counters) philox_round(d64, key, round, c);
    }
    auto* to = reinterpret_cast<std::uint64_t*>(draws + block * philox::kDrawsPerBlock);
    for (const PhiloxCounters<V>& c : counters) {
      const V low_half = set(0xFFFFFFFFU);
      const V words01 = hn::Or(hn::And(c.c0, low_half), hn::ShiftLeft<32>(c.c1));
      const V words23 = hn::Or(hn::And(c.c2, low_half), hn::ShiftLeft<32>(c.c3));
      hn::StoreU(hn::InterleaveLower(d64, words01, words23), d64, to);
      hn::StoreU(hn::InterleaveUpper(d64, words01, words23), d64, to + lanes);
      to += 2 * lanes;
    }
  }
}

/// Writes the 8 * blocks draws of blocks [first, first + blocks), in the order of their elements,
/// and noise for up to kPhiloxVectors vectors of blocks beyond.
HWY_INLINE void fill_draws(RandomKey key, std::uint64_t first, std::int64_t blocks,
                           std::uint16_t* HWY_RESTRICT draws) {
  while (blocks > 0) {
    const std::uint64_t same_high = (std::uint64_t{1} << 32) - (first & 0xFFFFFFFFU);
    const auto some =
        static_cast<std::int64_t>(std::min(static_cast<std::uint64_t>(blocks), same_high));
    fill_draws_of_half(key, first, some, draws);
    first += some;
    blocks -= some;
    draws += some * philox::kDrawsPerBlock;
  }
}

/// Draws of consecutive elements, made a stretch at a time.
class DrawStream {
 public:
  /// Elements that `at` can be asked for at once.
  static constexpr std::int64_t kMost = 1024;

  /// No draws are wanted from logical index `end` on.
  DrawStream(RandomKey key, std::int64_t end) : key_(key), end_(end) {}

  /// @return false when memory ran out
  bool prepare(cpu::Buffer& buffer) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint64_t>()));
    draws_ = buffer.get<std::uint16_t>((kBlocks + (kPhiloxVectors + 1) * lanes) *
                                       philox::kDrawsPerBlock);
    return draws_ != nullptr;
  }

  /// The draws of elements [k, k + count), behind which a vector of bytes is readable.
  HWY_INLINE const std::uint16_t* at(std::int64_t k, std::int64_t count) {
    if (k < first_ || k + count > first_ + made_) make(k);
    return draws_ + (k - first_);
  }

 private:
  HWY_NOINLINE void make(std::int64_t k) {
    const std::int64_t block = k / philox::kDrawsPerBlock;
    const std::int64_t left = (end_ + philox::kDrawsPerBlock - 1) / philox::kDrawsPerBlock - block;
    first_ = block * philox::kDrawsPerBlock;
    made_ = std::min(kBlocks, left) * philox::kDrawsPerBlock;
    fill_draws(key_, static_cast<std::uint64_t>(block), made_ / philox::kDrawsPerBlock, draws_);
  }

  /// Room for two of the largest runs, wherever they start.
  static constexpr std::int64_t kBlocks = 2 * kMost / philox::kDrawsPerBlock + 2;

  RandomKey key_;
  std::int64_t end_;
  std::int64_t first_ = 0;
  std::int64_t made_ = 0;
  std::uint16_t* draws_ = nullptr;
};

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
