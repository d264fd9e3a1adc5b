// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_TWO_SIDED_RANGES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_TWO_SIDED_RANGES_INL_H_
#undef CINCH_CODECS_CPU_TWO_SIDED_RANGES_INL_H_
#else
#define CINCH_CODECS_CPU_TWO_SIDED_RANGES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "codecs/affine.h"
#include "codecs/cpu/group_quant/ranges-inl.h"
#include "codecs/cpu/two_sided/channels-inl.h"
#include "codecs/cpu/two_sided/job.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Running extremes of a group's sides, lane by lane: a vector at each pointer.
struct SideExtremes {
  float* HWY_RESTRICT lower_min;
  float* HWY_RESTRICT lower_max;
  float* HWY_RESTRICT upper_min;
  float* HWY_RESTRICT upper_max;
  /// Becomes NaN if an element is, which the extremes may hide.
  float* HWY_RESTRICT sum;

  /// More than any element that can be held.
  static constexpr float kBeyond = 0x1p127F;

  HWY_INLINE void clear() const {
    const ExtremeTag df;
    hn::Store(hn::Set(df, kBeyond), df, lower_min);
    hn::Store(hn::Set(df, -kBeyond), df, lower_max);
    hn::Store(hn::Set(df, kBeyond), df, upper_min);
    hn::Store(hn::Set(df, -kBeyond), df, upper_max);
    hn::Store(hn::Zero(df), df, sum);
  }

  /// Adds `count` elements.
  template <class S>
  HWY_INLINE void add(S kind, const typename S::Raw* HWY_RESTRICT x, std::int64_t count,
                      const OneChannel& channel) const {
    if (channel.side_of_large() == 0) {
      add_monotone(kind, x, count, channel, upper_min, upper_max, lower_min, lower_max);
    } else {
      add_monotone(kind, x, count, channel, lower_min, lower_max, upper_min, upper_max);
    }
  }

  /// The same of several channels.
  HWY_INLINE void add(Float32, const float* HWY_RESTRICT x, std::int64_t count,
                      const EachChannel& channel) const {
    const ExtremeTag df;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
    const auto beyond = hn::Set(df, kBeyond), below = hn::Set(df, -kBeyond);
    auto min0 = hn::Load(df, lower_min), max0 = hn::Load(df, lower_max);
    auto min1 = hn::Load(df, upper_min), max1 = hn::Load(df, upper_max);
    auto total = hn::Load(df, sum);
    HWY_ALIGN float rest[HWY_MAX_BYTES] = {};
    for (std::int64_t i = 0; i < count; i += lanes) {
      const std::int64_t left = count - i;
      if (left < lanes) std::copy_n(x + i, left, rest);
      const auto wanted = hn::FirstN(df, static_cast<std::size_t>(std::min(left, lanes)));
      const auto v = left < lanes ? hn::Load(df, rest) : hn::LoadU(df, x + i);
      const auto is_upper = hn::RebindMask(
          df, hn::Lt(hn::BitCast(hn::RebindToSigned<ExtremeTag>(), channel.large(df, v, i)),
                     hn::Zero(hn::RebindToSigned<ExtremeTag>())));
      const auto z = channel.normal(df, v, i);
      const auto upper = hn::And(wanted, is_upper), lower = hn::AndNot(is_upper, wanted);
      total = hn::Add(total, hn::IfThenElseZero(wanted, z));
      min0 = hn::Min(min0, hn::IfThenElse(lower, z, beyond));
      max0 = hn::Max(max0, hn::IfThenElse(lower, z, below));
      min1 = hn::Min(min1, hn::IfThenElse(upper, z, beyond));
      max1 = hn::Max(max1, hn::IfThenElse(upper, z, below));
    }
    hn::Store(min0, df, lower_min);
    hn::Store(max0, df, lower_max);
    hn::Store(min1, df, upper_min);
    hn::Store(max1, df, upper_max);
    hn::Store(total, df, sum);
  }

  HWY_INLINE bool has_nan() const {
    const ExtremeTag df;
    const auto total = hn::Load(df, sum);
    return !hn::AllTrue(df, hn::Eq(total, total));
  }

 private:
  /// Adds elements of a channel. Both its normalized elements and their sides are monotone, so
  /// their extremes are those of the elements themselves, the largest is on the side of large ones
  /// if that has any, and the smallest on the other.
  /// @param small_min,small_max of the side of small elements; the others of large ones
  template <class S>
  HWY_INLINE void add_monotone(S, const typename S::Raw* HWY_RESTRICT x, std::int64_t count,
                               const OneChannel& channel, float* HWY_RESTRICT small_min,
                               float* HWY_RESTRICT small_max, float* HWY_RESTRICT large_min,
                               float* HWY_RESTRICT large_max) const {
    const ExtremeTag df;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
    const auto infinity = hn::Set(df, std::numeric_limits<float>::infinity());
    const auto minus = hn::Neg(infinity);
    auto min = infinity, max = minus;
    auto last_small = minus, first_large = infinity;
    auto total = hn::Load(df, sum);
    const auto step = [&](auto v) HWY_ATTR {
      const auto is_large = channel.large(df, v, 0);
      min = hn::Min(min, v);
      max = hn::Max(max, v);
      total = hn::Add(total, v);
      last_small = hn::Max(last_small, hn::IfNegativeThenElse(is_large, minus, v));
      first_large = hn::Min(first_large, hn::IfNegativeThenElse(is_large, v, infinity));
    };
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) step(S::load(df, x + i));
    if (i < count && count >= lanes) {
      step(S::load(df, x + count - lanes));  // some elements once more
    } else if (i < count) {
      HWY_ALIGN typename S::Raw rest[HWY_MAX_BYTES];
      std::fill_n(rest, lanes, *x);
      std::copy_n(x, count, rest);
      step(S::load(df, rest));
    }
    const auto z_min = channel.normal(df, min, 0), z_max = channel.normal(df, max, 0);
    // NaN where one of the two is NaN or infinite.
    total = hn::Add(total, hn::Mul(hn::Zero(df), hn::Add(z_min, z_max)));
    hn::Store(total, df, sum);
    const auto small = hn::Gt(last_small, minus), large = hn::Lt(first_large, infinity);
    const auto beyond = hn::Set(df, kBeyond), below = hn::Set(df, -kBeyond);
    const auto join_min = [&](float* HWY_RESTRICT to, auto has, auto z) HWY_ATTR {
      hn::Store(hn::Min(hn::Load(df, to), hn::IfThenElse(has, z, beyond)), df, to);
    };
    const auto join_max = [&](float* HWY_RESTRICT to, auto has, auto z) HWY_ATTR {
      hn::Store(hn::Max(hn::Load(df, to), hn::IfThenElse(has, z, below)), df, to);
    };
    join_min(small_min, small, z_min);
    join_max(small_max, small, channel.normal(df, last_small, 0));
    join_min(large_min, large, channel.normal(df, first_large, 0));
    join_max(large_max, large, z_max);
  }
};

/// Both ranges of up to kMost groups, with the numbers that quantizing needs.
class SideRanges {
 public:
  static constexpr std::int64_t kMost = GroupRanges::kMost / 2;

  /// Computes the ranges of the groups of a plane's elements from `begin` on, where one begins:
  /// `count` elements at x, at most kMost groups.
  template <class S>
  HWY_NOINLINE void find(S /*kind*/, const cpu::TwoSidedJob& job, ElementNumbers& numbers,
                         const typename S::Raw* HWY_RESTRICT x, std::int64_t begin,
                         std::int64_t count) {
    const ExtremeTag df;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
    HWY_ALIGN float mins[2 * kMost * 2 * kMost];
    HWY_ALIGN float maxs[2 * kMost * 2 * kMost];
    HWY_ALIGN float sum[2 * kMost];
    const std::int64_t groups = (count - 1) / job.group + 1;
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t at = g * job.group;
      const std::int64_t some = std::min(job.group, count - at);
      const SideExtremes extremes = {mins + 2 * g * lanes, maxs + 2 * g * lanes,
                                     mins + (2 * g + 1) * lanes, maxs + (2 * g + 1) * lanes, sum};
      extremes.clear();
      for_each_piece<S>(job, numbers, x + at, begin + at, some, count - at,
                        [&](auto kind, const auto* elements, std::int64_t /*i*/, std::int64_t n,
                            std::int64_t /*readable*/, const auto& channel)
                            HWY_ATTR { extremes.add(kind, elements, n, channel); });
      if (extremes.has_nan()) {
        hn::Store(hn::Set(df, std::numeric_limits<float>::quiet_NaN()), df, extremes.lower_min);
      }
    }
    hold(mins, maxs, 2 * groups, job.bits - 1);
  }

  /// Lower and upper range of each group.
  const AffineRange* ranges() const { return ranges_.ranges(); }
  float lo(std::int64_t group, int side) const { return ranges_.lo(2 * group + side); }
  float scale(std::int64_t group, int side) const { return ranges_.scale(2 * group + side); }
  bool any_poisoned() const { return ranges_.any_poisoned(); }
  bool poisoned(std::int64_t group) const { return ranges_.poisoned(2 * group); }

 private:
  /// Makes ranges of `count` vectors of extremes, those of lower and upper sides by turns.
  HWY_INLINE void hold(float* mins, float* maxs, std::int64_t count, int bits) {
    const ExtremeTag df;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
    const auto zero = hn::Zero(df);
    const auto limit = hn::Set(df, kAffineMaxMagnitude);
    ranges_.clear();
    for (std::int64_t first = 0; first < count; first += lanes) {
      const std::int64_t some = std::min(lanes, count - first);
      auto min = reduce_each(df, mins + first * lanes, some,
                             [](auto a, auto b) HWY_ATTR { return hn::Min(a, b); });
      auto max = reduce_each(df, maxs + first * lanes, some,
                             [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); });
      const auto holds = hn::Le(min, max);  // false for a side without elements, and for NaN
      const auto empty = hn::Gt(min, max);
      min = hn::IfThenZeroElse(empty, min);
      max = hn::IfThenElseZero(holds, max);
      const auto good = hn::And(hn::Le(hn::Abs(min), limit), hn::Le(hn::Abs(max), limit));
      // What one side can't hold poisons both.
      const auto bad = hn::IfThenZeroElse(good, hn::Set(df, 1.0F));
      const auto either = hn::Gt(hn::Add(bad, hn::Reverse2(df, bad)), zero);
      ranges_.hold(hn::IfThenElse(either, hn::Set(df, SideExtremes::kBeyond), min), max, bits,
                   first);
    }
  }

  GroupRanges ranges_;
};

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
