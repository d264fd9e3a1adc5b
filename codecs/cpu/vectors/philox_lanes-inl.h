// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_PHILOX_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_PHILOX_LANES_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_PHILOX_LANES_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_PHILOX_LANES_INL_H_
#endif

#include <cstdint>

#include "codecs/cpu/vectors/philox-inl.h"
#include "codecs/philox.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Computes the draws of vectors of blocks, one block a 64-bit lane.
class PhiloxFiller {
  using D64 = hn::ScalableTag<std::uint64_t>;
  using D32 = hn::Repartition<std::uint32_t, D64>;
  using V64 = hn::Vec<D64>;

 public:
  explicit PhiloxFiller(const PhiloxLanes& philox) : philox_(philox) {}

  /// See fill_draws.
  void fill(std::uint64_t first, std::int64_t blocks, std::uint16_t* HWY_RESTRICT draws) const {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(D64()));
    const std::uint64_t beyond = first + static_cast<std::uint64_t>(blocks + lanes);
    if (first >> 32 == beyond >> 32) {
      fill_steady(first, blocks, draws);
      return;
    }
    for (std::int64_t block = 0; block < blocks; block += lanes) {
      fill_vector(first + static_cast<std::uint64_t>(block),
                  draws + block * philox::kDrawsPerBlock);
    }
  }

 private:
  static constexpr std::uint64_t kLow = 0xFFFFFFFFU;
  static constexpr int kLast = philox::kRounds - 1;

  /// @pre the blocks' indices, and those of a vector beyond, agree in the upper half
  void fill_steady(std::uint64_t first, std::int64_t blocks,
                   std::uint16_t* HWY_RESTRICT draws) const {
    const D64 d64;
    // All counters agree except in the index's lower half, so half of the first two rounds is
    // constant. The index grows by equal steps, so its first product does too.
    const std::uint64_t fixed1 = product(philox::kMultiplier1, philox_.key.step);
    const std::uint64_t fixed0 =
        product(philox::kMultiplier0, (fixed1 >> 32) ^ (first >> 32) ^ philox_.key0[0]);
    const auto step_high = hn::Set(d64, (philox_.key.step >> 32) ^ philox_.key1[0]);
    const auto fixed1_low = hn::Set(d64, (fixed1 & kLow) ^ philox_.key0[1]);
    const auto fixed0_high = hn::Set(d64, (fixed0 >> 32) ^ philox_.key1[1]);
    const auto fixed0_low = hn::Set(d64, fixed0 & kLow);
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d64));
    const auto next = hn::Set(d64, philox::kMultiplier0 * static_cast<std::uint64_t>(lanes));

    const auto index = hn::Add(hn::Set(d64, first & kLow), hn::Load(d64, philox_.offset));
    auto product0 = times(index, philox::kMultiplier0);
    std::int64_t block = 0;
    // Two vectors at a time, since the steps of a round depend on each other.
    for (; block + lanes < blocks; block += 2 * lanes) {
      const auto other0 = hn::Add(product0, next);
      const auto product1 =
          times(hn::Xor(hn::ShiftRight<32>(product0), step_high), philox::kMultiplier1);
      const auto other1 =
          times(hn::Xor(hn::ShiftRight<32>(other0), step_high), philox::kMultiplier1);
      auto c0 = hn::Xor(hn::ShiftRight<32>(product1), fixed1_low), c1 = product1;
      auto d0 = hn::Xor(hn::ShiftRight<32>(other1), fixed1_low), d1 = other1;
      auto c2 = hn::Xor(product0, fixed0_high), c3 = fixed0_low;
      auto d2 = hn::Xor(other0, fixed0_high), d3 = fixed0_low;
      for (int r = 2; r < kLast; ++r) {
        philox_round(d64, philox_, r, c0, c1, c2, c3);
        philox_round(d64, philox_, r, d0, d1, d2, d3);
      }
      store_last(c0, c1, c2, c3, draws + block * philox::kDrawsPerBlock);
      store_last(d0, d1, d2, d3, draws + (block + lanes) * philox::kDrawsPerBlock);
      product0 = hn::Add(other0, next);
    }
    if (block < blocks) {
      fill_vector(first + static_cast<std::uint64_t>(block),
                  draws + block * philox::kDrawsPerBlock);
    }
  }

  /// The draws of the vector of blocks that begins with block `first`.
  void fill_vector(std::uint64_t first, std::uint16_t* HWY_RESTRICT draws) const {
    const D64 d64;
    const auto index = hn::Add(hn::Set(d64, first), hn::Load(d64, philox_.offset));
    auto c0 = index, c1 = hn::ShiftRight<32>(index);
    auto c2 = hn::Set(d64, philox_.key.step), c3 = hn::Set(d64, philox_.key.step >> 32);
    for (int r = 0; r < kLast; ++r) philox_round(d64, philox_, r, c0, c1, c2, c3);
    store_last(c0, c1, c2, c3, draws);
  }

  static std::uint64_t product(std::uint32_t multiplier, std::uint64_t word) {
    return std::uint64_t{multiplier} * (word & kLow);
  }
  static HWY_INLINE V64 times(V64 words, std::uint32_t multiplier) {
    return philox_product(D64(), words, multiplier);
  }
  static HWY_INLINE V64 swap_halves(V64 v) {
    return hn::BitCast(D64(), hn::Shuffle2301(hn::BitCast(D32(), v)));
  }

  /// The last round. Stores the draws.
  HWY_INLINE void store_last(V64 c0, V64 c1, V64 c2, V64 c3,
                             std::uint16_t* HWY_RESTRICT draws) const {
    const D64 d64;
    const auto low = hn::Set(d64, kLow);
    const auto words01 = hn::Xor3(swap_halves(times(c2, philox::kMultiplier1)), hn::And(c1, low),
                                  hn::Set(d64, philox_.key0[kLast]));
    const auto words23 = hn::Xor3(swap_halves(times(c0, philox::kMultiplier0)), hn::And(c3, low),
                                  hn::Set(d64, philox_.key1[kLast]));
    auto* const to = reinterpret_cast<std::uint64_t*>(draws);
    hn::StoreU(hn::InterleaveLower(d64, words01, words23), d64, to);
    hn::StoreU(hn::InterleaveUpper(d64, words01, words23), d64, to + hn::Lanes(d64));
  }

  const PhiloxLanes& philox_;
};

void fill_draws(const PhiloxLanes& philox, std::uint64_t first, std::int64_t blocks,
                std::uint16_t* HWY_RESTRICT draws) {
  PhiloxFiller(philox).fill(first, blocks, draws);
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
