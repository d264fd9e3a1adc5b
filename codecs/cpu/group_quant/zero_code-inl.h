// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_GROUP_QUANT_ZERO_CODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_GROUP_QUANT_ZERO_CODE_INL_H_
#undef CINCH_CODECS_CPU_GROUP_QUANT_ZERO_CODE_INL_H_
#else
#define CINCH_CODECS_CPU_GROUP_QUANT_ZERO_CODE_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "codecs/cpu/group_quant/ranges-inl.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/formats/group_quant.h"
#include "hwy/highway.h"

/// What GroupQuantParameters::zero_code takes besides, and extremes for groups with and without it.
HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Extremes of elements, lane by lane, and a sum that is NaN if one is NaN, which they may hide.
/// @tparam kAboveZero extremes are of elements above 0 alone, and the sum is that of all others:
/// below 0 where one is negative
template <bool kAboveZero>
class Extremes {
  using DF = ExtremeTag;
  using VF = hn::Vec<DF>;

 public:
  HWY_INLINE Extremes()
      : least_(hn::Set(DF(), kInfinity)),
        most_(hn::Set(DF(), kAboveZero ? 0.0F : -kInfinity)),
        sum_(hn::Zero(DF())) {}

  /// Goes on from what was stored.
  HWY_INLINE Extremes(const float* least, const float* most, const float* sum)
      : least_(hn::Load(DF(), least)), most_(hn::Load(DF(), most)), sum_(hn::Load(DF(), sum)) {}

  HWY_INLINE void add(VF x) {
    auto low = x, high = x, summand = x;
    if constexpr (kAboveZero) {
      const auto above = hn::Gt(x, hn::Zero(DF()));  // false for NaN
      low = hn::IfThenElse(above, x, least_);
      high = hn::IfThenElseZero(above, x);
      summand = hn::IfThenZeroElse(above, x);
    }
    least_ = hn::Min(least_, low);
    most_ = hn::Max(most_, high);
    sum_ = hn::Add(sum_, summand);
  }

  HWY_INLINE void store(float* least, float* most, float* sum) const {
    const DF df;
    hn::Store(least_, df, least);
    hn::Store(most_, df, most);
    hn::Store(sum_, df, sum);
  }

 private:
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();

  VF least_, most_, sum_;
};
using AllElements = Extremes<false>;
using AboveZero = Extremes<true>;

/// What GroupRanges::hold takes of such extremes.
struct AboveZeroBounds {
  hn::Vec<ExtremeTag> min, max;

  HWY_INLINE AboveZeroBounds(hn::Vec<ExtremeTag> least, hn::Vec<ExtremeTag> most,
                             hn::Vec<ExtremeTag> sum, int bits)
      : max(most) {
    const ExtremeTag df;
    // below_least
    auto step = hn::Div(hn::Sub(most, least), hn::Set(df, static_cast<float>((1 << bits) - 2)));
    step = hn::Max(step, hn::Mul(least, hn::Set(df, 0x1p-7F)));
    step = hn::Max(step, hn::Set(df, kAffineMinStep));
    min = hn::Sub(least, hn::Mul(step, hn::Set(df, 1.0F + 0x1p-6F)));
    min = hn::IfThenElseZero(hn::Gt(most, hn::Zero(df)), min);
    min = hn::IfThenElse(hn::Eq(sum, sum), min, sum);
  }
};

/// Whether a vector of AboveZero's sums says that data are not representable.
HWY_INLINE bool any_below_zero(hn::Vec<ExtremeTag> sum) {
  const ExtremeTag df;
  return !hn::AllTrue(df, hn::Eq(sum, hn::Zero(df)));
}

/// GroupRanges::find with zero_code. @return whether all elements are representable
template <class S>
HWY_NOINLINE bool find_above_zero(GroupRanges& ranges, const typename S::Raw* HWY_RESTRICT x,
                                  std::int64_t count, std::int64_t group, int bits) {
  const ExtremeTag df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  constexpr std::int64_t kMost = GroupRanges::kMost;
  HWY_ALIGN float least[kMost * kMost];
  HWY_ALIGN float most[kMost * kMost];
  HWY_ALIGN float sums[kMost * kMost];
  HWY_ALIGN typename S::Raw rest[kMost];
  const std::int64_t groups = (count - 1) / group + 1;
  bool all_above = true;
  ranges.clear();
  for (std::int64_t first = 0; first < groups; first += lanes) {
    const std::int64_t some = std::min(lanes, groups - first);
    for (std::int64_t i = 0; i < some; ++i) {
      const std::int64_t end = std::min(count, (first + i + 1) * group);
      AboveZero above;
      std::int64_t k = (first + i) * group;
      for (; k + lanes <= end; k += lanes) above.add(S::load(df, x + k));
      if (k < end) {
        std::fill_n(rest, lanes, x[k]);
        std::copy_n(x + k, end - k, rest);
        above.add(S::load(df, rest));
      }
      above.store(least + i * lanes, most + i * lanes, sums + i * lanes);
    }
    const auto sum =
        reduce_each(df, sums, some, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
    all_above &= !any_below_zero(sum);
    const AboveZeroBounds bounds(
        reduce_each(df, least, some, [](auto a, auto b) HWY_ATTR { return hn::Min(a, b); }),
        reduce_each(df, most, some, [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); }), sum,
        bits);
    ranges.hold(bounds.min, bounds.max, bits, first);
  }
  return all_above;
}

/// The codes of a poisoned group.
template <class S>
HWY_INLINE void put_signs(const typename S::Raw* x, std::int64_t count, std::uint8_t* codes) {
  for (std::int64_t i = 0; i < count; ++i) {
    codes[i] = S::value(std::bit_cast<typename S::Bits>(x[i])) > 0.0F ? 1 : 0;
  }
}

/// What `Value` makes of codes, but 0 of code 0. As floats, or with draws, as integers.
template <class Value>
class ZeroCoded {
 public:
  HWY_INLINE explicit ZeroCoded(const Value& value) : value_(value) {}

  template <class DF, class VF = hn::Vec<DF>>
  HWY_INLINE VF operator()(DF df, VF code) const {
    return hn::IfThenZeroElse(hn::Eq(code, hn::Zero(df)), value_(df, code));
  }
  template <class DF, class VI>
  HWY_INLINE hn::Vec<DF> operator()(DF df, VI code, VI draw) const {
    const auto is_zero = hn::Eq(code, hn::Zero(hn::RebindToSigned<DF>()));
    return hn::IfThenZeroElse(hn::RebindMask(df, is_zero), value_(df, code, draw));
  }

 private:
  Value value_;
};

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
