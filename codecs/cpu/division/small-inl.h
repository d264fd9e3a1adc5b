// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_DIVISION_SMALL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_DIVISION_SMALL_INL_H_
#undef CINCH_CODECS_CPU_DIVISION_SMALL_INL_H_
#else
#define CINCH_CODECS_CPU_DIVISION_SMALL_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/division/job.h"
#include "codecs/cpu/vectors/float_formats-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace division {

/// Survey for planes of one block of up to 8 columns, such as the 7x7 planes at the end of many
/// networks. Takes one plane for each 8 lanes at once, and has no branches, since there is so
/// little to do for each plane.
template <class Elements>
class SmallSurvey {
 public:
  using T = typename Elements::Raw;

  /// Whether planes of this geometry are small enough.
  static bool takes(const DivisionGeometry& g) {
    const std::int64_t n = g.extent[0] * g.extent[1] * g.extent[2];
    return g.block_count() == 1 && g.extent == g.block && g.extent[2] <= kColumns &&
           n <= kMaxElements && (lanes() == kColumns || lanes() == 2 * kColumns);
  }

  explicit SmallSurvey(const DivisionGeometry& g)
      : n_(g.extent[0] * g.extent[1] * g.extent[2]),
        width_(g.extent[2]),
        padded_(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(width_)))) {}

  /// Surveys `count` planes that lie `pitch` elements apart at `x`, with a readable vector behind
  /// them.
  HWY_INLINE void operator()(const T* HWY_RESTRICT x, std::int64_t pitch, std::int64_t count,
                             const cpu::DivisionStatistics& to) const {
    const auto lane = hn::And(hn::Iota(di, 0), hn::Set(di, kColumns - 1));
    const auto inside = hn::RebindMask(df, hn::Lt(lane, hn::Set(di, static_cast<int>(width_))));
    const VF elements = hn::Set(df, static_cast<float>(n_));
    const VF limit = hn::Set(df, kAffineMaxMagnitude);
    const std::int64_t beside = lanes() / kColumns;
    for (std::int64_t k = 0; k < count; k += beside) {
      // If there is no other plane, this one is taken twice.
      const std::int64_t distance = k + beside <= count ? pitch : 0;
      const T* const from = x + k * pitch;
      VF sum = load(from, distance), low = sum, high = sum;
      for (std::int64_t i = width_; i < n_; i += width_) {
        const VF v = load(from + i, distance);
        sum = hn::Add(sum, v);
        low = hn::Min(low, v);
        high = hn::Max(high, v);
      }
      low = hn::IfThenElse(inside, low, limit);
      high = hn::IfThenElse(inside, high, hn::Neg(limit));
      for_each_step(kColumns, [&](auto shuffle) {
        low = hn::Min(low, shuffle(low));
        high = hn::Max(high, shuffle(high));
      });
      sum = hn::IfThenElseZero(inside, sum);
      for_each_step(padded_, [&](auto shuffle) { sum = hn::Add(sum, shuffle(sum)); });

      // A NaN among the elements makes the mean NaN.
      const VF quotient = hn::Div(sum, elements);
      const auto good = hn::And(hn::And(hn::Ge(low, hn::Neg(limit)), hn::Le(high, limit)),
                                hn::Eq(quotient, quotient));
      const VF mean = hn::IfThenElseZero(good, nearest_bf16_value(df, quotient));
      HWY_ALIGN float results[3][HWY_MAX_BYTES / sizeof(float)];
      hn::Store(mean, df, results[0]);
      hn::Store(hn::IfThenElseZero(good, hn::Sub(low, mean)), df, results[1]);
      hn::Store(hn::IfThenElse(good, hn::Sub(high, mean), hn::Set(df, -1.0F)), df, results[2]);
      for (std::int64_t i = 0; i < std::min(beside, count - k); ++i) {
        const float* const result = results[0] + i * kColumns;
        hn::StoreU(hn::Set(df, *result), df, to.rows + (k + i) * lanes());
        const auto bits = static_cast<std::uint16_t>(float_bits(*result) >> 16);
        std::memcpy(to.means + 2 * (k + i), &bits, 2);
        to.min[k + i] = results[1][i * kColumns];
        to.max[k + i] = results[2][i * kColumns];
      }
    }
  }

 private:
  static constexpr hn::ScalableTag<float> df = {};
  static constexpr hn::RebindToSigned<hn::ScalableTag<float>> di = {};
  using VF = hn::Vec<hn::ScalableTag<float>>;
  static constexpr std::int64_t kColumns = 8;
  static constexpr std::int64_t kMaxElements = 1 << 20;  // exact as a float, as are many more

  static constexpr std::int64_t lanes() { return hn::MaxLanes(df); }

  /// Loads 8 columns from each of as many planes as a vector holds, `distance` apart.
  static HWY_INLINE VF load(const T* from, std::int64_t distance) {
    if constexpr (lanes() == 2 * kColumns) {
      const hn::Half<decltype(df)> half;
      return hn::Combine(df, Elements::load(half, from + distance), Elements::load(half, from));
    } else {
      return Elements::load(df, from);
    }
  }

  /// Calls `f(shuffle)` for the shuffles that combine every lane with all of its plane's `columns`.
  template <class F>
  static HWY_INLINE void for_each_step(std::int64_t columns, const F& f) {
    if (columns > 1) f([](VF v) { return hn::Shuffle2301(v); });
    if (columns > 2) f([](VF v) { return hn::Shuffle1032(v); });
    if (columns > 4) f([](VF v) { return hn::SwapAdjacentBlocks(v); });
  }

  std::int64_t n_;       ///< elements of a plane
  std::int64_t width_;   ///< columns of a plane
  std::int64_t padded_;  ///< columns, rounded up to a power of two
};

}  // namespace division
}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
