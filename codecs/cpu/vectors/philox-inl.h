// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_PHILOX_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_PHILOX_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_PHILOX_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "codecs/cpu/workspace.h"
#include "codecs/philox.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Philox's keys of all rounds, for vectors of blocks, one block a 64-bit lane.
struct PhiloxLanes {
  RandomKey key;
  std::uint64_t key0[philox::kRounds];
  std::uint64_t key1[philox::kRounds];
  HWY_ALIGN std::uint64_t offset[HWY_MAX_BYTES / 8];

  explicit PhiloxLanes(RandomKey random_key) : key(random_key) {
    for (int round = 0; round < philox::kRounds; ++round) {
      key0[round] = key.seed + static_cast<std::uint32_t>(round) * philox::kWeyl0;
      key1[round] = key.entry + static_cast<std::uint32_t>(round) * philox::kWeyl1;
    }
    // Blocks of even lanes are stored first, then those of odd ones.
    const auto lanes = static_cast<int>(hn::Lanes(hn::ScalableTag<std::uint64_t>()));
    for (int i = 0; i < lanes; ++i) {
      offset[i] = static_cast<std::uint64_t>(i / 2 + i % 2 * lanes / 2);
    }
  }
};

/// Philox on vectors of counter words, one a 64-bit lane. Only the low halves are used; the upper
/// halves hold leftovers of the last product.
template <class D64, class V64 = hn::Vec<D64>>
HWY_INLINE V64 philox_product(D64 /*d64*/, V64 words, std::uint32_t multiplier) {
  const hn::Repartition<std::uint32_t, D64> d32;
  return hn::MulEven(hn::BitCast(d32, words), hn::Set(d32, multiplier));
}

/// One round, but the last.
template <class D64, class V64 = hn::Vec<D64>>
HWY_INLINE void philox_round(D64 d64, const PhiloxLanes& philox, int r, V64& c0, V64& c1, V64& c2,
                             V64& c3) {
  const V64 product0 = philox_product(d64, c0, philox::kMultiplier0);
  const V64 product1 = philox_product(d64, c2, philox::kMultiplier1);
  c0 = hn::Xor3(hn::ShiftRight<32>(product1), c1, hn::Set(d64, philox.key0[r]));
  c1 = product1;
  c2 = hn::Xor3(hn::ShiftRight<32>(product0), c3, hn::Set(d64, philox.key1[r]));
  c3 = product0;
}

/// Writes the 8 * blocks draws of blocks [first, first + blocks), in the order of their elements,
/// and up to a vector of blocks beyond.
void fill_draws(const PhiloxLanes& philox, std::uint64_t first, std::int64_t blocks,
                std::uint16_t* HWY_RESTRICT draws);
HWY_INLINE void fill_draws(RandomKey key, std::uint64_t first, std::int64_t blocks,
                           std::uint16_t* HWY_RESTRICT draws) {
  fill_draws(PhiloxLanes(key), first, blocks, draws);
}

/// The draws of consecutive elements, computed a stretch at a time.
class DrawStream {
 public:
  /// The most draws that one call of `at` may ask for.
  static constexpr std::int64_t kMost = 1024;

  /// Draws from logical index `end` on will not be read.
  DrawStream(RandomKey key, std::int64_t end) : key_(key), end_(end) {}

  /// @return false when memory ran out
  bool prepare(cpu::Buffer& buffer) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint64_t>()));
    draws_ = buffer.get<std::uint16_t>((kBlocks + 2 * lanes) * philox::kDrawsPerBlock);
    return draws_ != nullptr;
  }

  /// The draws of elements [k, k + count), with a readable vector of bytes behind them.
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
