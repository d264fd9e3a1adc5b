// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_GROUP_QUANT_RANGES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_GROUP_QUANT_RANGES_INL_H_
#undef CINCH_CODECS_CPU_GROUP_QUANT_RANGES_INL_H_
#else
#define CINCH_CODECS_CPU_GROUP_QUANT_RANGES_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codecs/affine.h"
#include "codecs/codec.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Maps 16-bit floats, as signed integers, to integers in the order of their values, with NaNs
/// outside the infinities. It is its own inverse.
template <int kWidth, class DI, class VI>
HWY_INLINE VI in_order(DI di, VI bits) {
  return hn::Xor(bits, hn::And(hn::ShiftRight<kWidth - 1>(bits), hn::Set(di, 0x7FFF)));
}

/// At most as many lanes as GroupRanges has ranges.
using ExtremeTag = hn::CappedTag<float, 16>;

/// Computes the extremes of `count` elements, lane by lane, in 32-bit lanes that are ordered like
/// the elements. `sum` becomes NaN if a float is NaN, which the extremes may hide.
HWY_INLINE void extremes_of(Float32, const float* HWY_RESTRICT x, std::int64_t count,
                            float* HWY_RESTRICT min_lanes, float* HWY_RESTRICT max_lanes,
                            hn::Vec<ExtremeTag>& sum) {
  const ExtremeTag df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  auto min0 = hn::Set(df, x[0]), max0 = min0, min1 = min0, max1 = min0;
  auto sum0 = hn::Zero(df), sum1 = sum0;
  const auto step = [&](auto v, auto& min, auto& max, auto& some) HWY_ATTR {
    min = hn::Min(min, v);
    max = hn::Max(max, v);
    some = hn::Add(some, v);
  };
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    step(hn::LoadU(df, x + i), min0, max0, sum0);
    step(hn::LoadU(df, x + i + lanes), min1, max1, sum1);
  }
  if (i + lanes <= count) {
    step(hn::LoadU(df, x + i), min0, max0, sum0);
    i += lanes;
  }
  if (i < count) {
    HWY_ALIGN float rest[HWY_MAX_BYTES / 4];
    hn::Store(hn::Set(df, x[i]), df, rest);
    std::memcpy(rest, x + i, (count - i) * sizeof(float));
    step(hn::Load(df, rest), min1, max1, sum1);
  }
  sum = hn::Add(sum, hn::Add(sum0, sum1));
  hn::Store(hn::Min(min0, min1), df, min_lanes);
  hn::Store(hn::Max(max0, max1), df, max_lanes);
}

template <class Half>
HWY_INLINE void extremes_of(Half, const std::uint16_t* HWY_RESTRICT x, std::int64_t count,
                            std::int32_t* HWY_RESTRICT min_lanes,
                            std::int32_t* HWY_RESTRICT max_lanes, hn::Vec<ExtremeTag>& /*sum*/) {
  const hn::Repartition<std::int16_t, ExtremeTag> d16;
  const hn::RepartitionToWide<decltype(d16)> d32;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d16));
  const auto* const signed_x = reinterpret_cast<const std::int16_t*>(x);
  auto min = in_order<16>(d16, hn::Set(d16, signed_x[0]));
  auto max = min;
  const auto step = [&](auto bits) HWY_ATTR {
    const auto v = in_order<16>(d16, bits);
    min = hn::Min(min, v);
    max = hn::Max(max, v);
  };
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) step(hn::LoadU(d16, signed_x + i));
  if (i < count) {
    HWY_ALIGN std::int16_t rest[HWY_MAX_BYTES / 2];
    hn::Store(hn::Set(d16, signed_x[i]), d16, rest);
    std::memcpy(rest, x + i, (count - i) * sizeof(std::int16_t));
    step(hn::Load(d16, rest));
  }
  const auto low = [&](auto v) HWY_ATTR {
    return hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(d32, v)));
  };
  const auto high = [&](auto v) HWY_ATTR { return hn::ShiftRight<16>(hn::BitCast(d32, v)); };
  hn::Store(hn::Min(low(min), high(min)), d32, min_lanes);
  hn::Store(hn::Max(low(max), high(max)), d32, max_lanes);
}

/// Reduces `count` vectors at `v`, at most as many as there are lanes, with f: lane i of the result
/// is the reduction of vector i's lanes.
template <class D, class F>
HWY_INLINE hn::Vec<D> reduce_each(D d, hn::TFromD<D>* v, std::int64_t count, const F& f) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t width = lanes; width > 1; width /= 2) {
    for (std::int64_t i = 0; i < count; i += 2) {
      const auto a = hn::Load(d, v + i * lanes);
      const auto b = hn::Load(d, v + std::min(i + 1, count - 1) * lanes);
      hn::Store(f(hn::ConcatEven(d, b, a), hn::ConcatOdd(d, b, a)), d, v + i / 2 * lanes);
    }
    count = (count + 1) / 2;
  }
  return hn::Load(d, v);
}

/// The values of lanes that in_order mapped.
template <class DF>
HWY_INLINE hn::Vec<DF> value_of(Float32, DF /*df*/, hn::Vec<DF> v) {
  return v;
}
template <class Half, class DF>
HWY_INLINE hn::Vec<DF> value_of(Half, DF df, hn::Vec<hn::RebindToSigned<DF>> v) {
  const hn::RebindToSigned<DF> di;
  return Half::low(df, hn::BitCast(hn::RebindToUnsigned<DF>(), in_order<32>(di, v)));
}

/// Ranges of up to kMost groups, with the numbers that quantizing needs.
class GroupRanges {
 public:
  static constexpr std::int64_t kMost = 16;

  /// Computes affine_range of each group of `group` elements of the `count` at `x` (the last group
  /// may be shorter); poisoned_range() for groups with a NaN, an infinity or a magnitude above
  /// kAffineMaxMagnitude. Elements below `floor` count as that. @pre there are at most kMost groups
  template <class S>
  HWY_NOINLINE void find(S kind, const typename S::Raw* HWY_RESTRICT x, std::int64_t count,
                         std::int64_t group, int bits, float floor) {
    using T = typename S::Ordered;
    const ExtremeTag df;
    const hn::Rebind<T, ExtremeTag> dt;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
    HWY_ALIGN T mins[kMost * kMost];
    HWY_ALIGN T maxs[kMost * kMost];
    const std::int64_t groups = (count - 1) / group + 1;
    clear();
    for (std::int64_t first = 0; first < groups; first += lanes) {
      const std::int64_t some = std::min(lanes, groups - first);
      auto sum = hn::Zero(df);
      for (std::int64_t i = 0; i < some; ++i) {
        const std::int64_t begin = (first + i) * group;
        extremes_of(kind, x + begin, std::min(group, count - begin), mins + i * lanes,
                    maxs + i * lanes, sum);
      }
      auto min = value_of(kind, df, reduce_each(dt, mins, some, [](auto a, auto b) HWY_ATTR {
                            return hn::Min(a, b);
                          }));
      const auto max = value_of(kind, df, reduce_each(dt, maxs, some, [](auto a, auto b) HWY_ATTR {
                                  return hn::Max(a, b);
                                }));
      if constexpr (std::is_same_v<S, Float32>) {
        if (!hn::AllTrue(df, hn::Eq(sum, sum))) {
          min = with_nans(min, x + first * group, std::min(some * group, count - first * group),
                          group);
        }
      }
      hold(min, max, bits, first, floor);
    }
  }

  /// Forgets all ranges.
  void clear() { any_poisoned_ = false; }

  /// Takes affine_range and affine_scale of a vector of extremes as those of the groups from
  /// `first` on; where they can't be held, poisoned_range(). What is below `floor` counts as that.
  HWY_INLINE void hold(hn::Vec<ExtremeTag> min, hn::Vec<ExtremeTag> max, int bits,
                       std::int64_t first, float floor = kNoFloor) {
    const ExtremeTag df;
    const hn::RebindToUnsigned<ExtremeTag> du;
    const auto zero = hn::Zero(df);
    const auto limit = hn::Set(df, kAffineMaxMagnitude);
    const auto good =
        hn::And(hn::Le(hn::Abs(min), limit), hn::Le(hn::Abs(max), limit));  // false for NaN
    const auto least = hn::Set(df, floor);
    min = hn::Max(min, least);
    max = hn::Max(max, least);
    const auto rest = hn::Set(du, 0xFFFF);
    const auto low = hn::IfThenElseZero(good, hn::Add(min, zero));
    const auto down = hn::IfThenElseZero(hn::RebindMask(du, hn::Lt(low, zero)), rest);
    const auto lo_bits = hn::ShiftRight<16>(hn::Add(hn::BitCast(du, low), down));
    const auto lo = hn::BitCast(df, hn::ShiftLeft<16>(lo_bits));

    const auto codes = hn::Set(df, static_cast<float>((1 << bits) - 1));
    const auto extent = hn::Sub(hn::IfThenElseZero(good, max), lo);
    const auto step = hn::Max(hn::Div(extent, codes), hn::Set(df, kAffineMinStep));
    const auto up = hn::BitCast(df, hn::AndNot(rest, hn::Add(hn::BitCast(du, step), rest)));
    const auto has_extent = hn::Gt(extent, zero);
    const auto ratio = hn::Div(hn::Set(df, 65536.0F), up);
    const auto step_bits = hn::BitCast(du, hn::IfThenElseZero(has_extent, up));

    hn::Store(lo, df, lo_ + first);
    hn::Store(hn::IfThenElseZero(has_extent, ratio), df, scale_ + first);
    const auto bad = hn::Set(du, std::uint32_t{kPoisonedStep} << 16);
    static_assert(sizeof(AffineRange) == sizeof(std::uint32_t));
    hn::Store(hn::IfThenElse(hn::RebindMask(du, good), hn::Or(lo_bits, step_bits), bad), du,
              reinterpret_cast<std::uint32_t*>(range_) + first);
    any_poisoned_ |= !hn::AllTrue(df, good);
  }

  const AffineRange* ranges() const { return range_; }
  const float* los() const { return lo_; }
  const float* scales() const { return scale_; }
  float lo(std::int64_t i) const { return lo_[i]; }
  float scale(std::int64_t i) const { return scale_[i]; }
  bool any_poisoned() const { return any_poisoned_; }
  bool poisoned(std::int64_t i) const { return range_[i] == poisoned_range(); }

 private:
  using VF = hn::Vec<ExtremeTag>;

  /// Returns `min` with NaN in the lanes of groups that have one.
  static HWY_NOINLINE VF with_nans(VF min, const float* x, std::int64_t count, std::int64_t group) {
    const ExtremeTag df;
    HWY_ALIGN float sums[kMost];
    hn::Store(min, df, sums);
    for (std::int64_t i = 0; i < count; ++i) {
      if (std::isnan(x[i])) sums[i / group] = x[i];
    }
    return hn::Load(df, sums);
  }

  HWY_ALIGN AffineRange range_[kMost];
  HWY_ALIGN float lo_[kMost];
  HWY_ALIGN float scale_[kMost];
  bool any_poisoned_ = false;
};

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
