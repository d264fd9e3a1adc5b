// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_PHILOX_APART_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_PHILOX_APART_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_PHILOX_APART_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_PHILOX_APART_INL_H_
#endif

#include <cstdint>

#include "codecs/cpu/vectors/philox-inl.h"
#include "codecs/philox.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Blocks of draws that are equally far from one another, one a 32-bit lane: for elements that lie
/// side by side in memory, but not in logical order.
class PhiloxApart {
 public:
  using D32 = hn::CappedTag<std::uint32_t, 16>;
  using V32 = hn::Vec<D32>;

  /// @param apart from each lane's block to that of the next lane
  PhiloxApart(const PhiloxLanes& philox, std::uint64_t apart) : philox_(philox) {
    for (std::uint64_t i = 0; i < hn::Lanes(D64()); ++i) {
      even_[i] = 2 * i * apart;
      odd_[i] = even_[i] + apart;
    }
  }

  /// Sets `words` to the four words of each lane's block; that of lane 0 is `first`.
  HWY_INLINE void blocks(std::uint64_t first, V32 (&words)[4]) const {
    const D64 d64;
    Counter even = after_first_round(hn::Add(hn::Set(d64, first), hn::Load(d64, even_)));
    Counter odd = after_first_round(hn::Add(hn::Set(d64, first), hn::Load(d64, odd_)));
    for (int r = 1; r < kLast; ++r) {
      round(r, even);
      round(r, odd);
    }
    const D32 d32;
    const V64 even1 = times(even.c2, philox::kMultiplier1);
    const V64 odd1 = times(odd.c2, philox::kMultiplier1);
    const V64 even0 = times(even.c0, philox::kMultiplier0);
    const V64 odd0 = times(odd.c0, philox::kMultiplier0);
    words[0] = hn::Xor3(upper(even1, odd1), lower(even.c1, odd.c1), key(d32, philox_.key0));
    words[1] = lower(even1, odd1);
    words[2] = hn::Xor3(upper(even0, odd0), lower(even.c3, odd.c3), key(d32, philox_.key1));
    words[3] = lower(even0, odd0);
  }

 private:
  using D64 = hn::RepartitionToWide<D32>;
  using V64 = hn::Vec<D64>;
  static constexpr int kLast = philox::kRounds - 1;

  /// Words of counters in the lower halves of 64-bit lanes; the upper halves mean nothing.
  struct Counter {
    V64 c0, c1, c2, c3;
  };

  static HWY_INLINE V32 key(D32 d32, const std::uint64_t* of_rounds) {
    return hn::Set(d32, static_cast<std::uint32_t>(of_rounds[kLast]));
  }
  static HWY_INLINE V64 times(V64 words, std::uint32_t multiplier) {
    return philox_product(D64(), words, multiplier);
  }
  /// The lower halves of 64-bit lanes, those of `even` in even 32-bit lanes.
  static HWY_INLINE V32 lower(V64 even, V64 odd) {
    const D32 d32;
    return hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(odd)), hn::BitCast(d32, even));
  }
  static HWY_INLINE V32 upper(V64 even, V64 odd) {
    const D32 d32;
    return hn::OddEven(hn::BitCast(d32, odd), hn::BitCast(d32, hn::ShiftRight<32>(even)));
  }

  /// The step is the same in all counters, and so is its product.
  HWY_INLINE Counter after_first_round(V64 index) const {
    const D64 d64;
    const std::uint64_t step = philox_.key.step;
    const std::uint64_t of_step = philox::kMultiplier1 * (step & 0xFFFFFFFFU);
    const V64 of_index = times(index, philox::kMultiplier0);
    return {hn::Xor(hn::ShiftRight<32>(index), hn::Set(d64, (of_step >> 32) ^ philox_.key0[0])),
            hn::Set(d64, of_step),
            hn::Xor(hn::ShiftRight<32>(of_index), hn::Set(d64, (step >> 32) ^ philox_.key1[0])),
            of_index};
  }

  HWY_INLINE void round(int r, Counter& c) const {
    philox_round(D64(), philox_, r, c.c0, c.c1, c.c2, c.c3);
  }

  const PhiloxLanes& philox_;
  HWY_ALIGN std::uint64_t even_[HWY_MAX_BYTES / 8];
  HWY_ALIGN std::uint64_t odd_[HWY_MAX_BYTES / 8];
};

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
