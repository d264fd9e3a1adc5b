// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_DIVISION_WIDE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_DIVISION_WIDE_INL_H_
#undef CINCH_CODECS_CPU_DIVISION_WIDE_INL_H_
#else
#define CINCH_CODECS_CPU_DIVISION_WIDE_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/division/pool-inl.h"
#include "codecs/cpu/division/rows-inl.h"
#include "codecs/cpu/vectors/float_formats-inl.h"
#include "codecs/cpu/workspace.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace division {

/// Surveys rows of blocks of any width, with column sums in memory.
template <class Elements>
class WideSurvey {
 public:
  using T = typename Elements::Raw;

  explicit WideSurvey(const DivisionGeometry& g)
      : g_(g),
        padded_(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(g.block[2])))) {}

  /// @return false when memory ran out
  bool prepare(cpu::Workspace& work) {
    const std::int64_t columns = std::max(g_.blocks[2] * padded_, g_.extent[2]) + 2 * lanes();
    sums_ = work.sums.template get<float>(3 * columns);
    low_ = sums_ + columns;
    high_ = low_ + columns;
    means_ = work.means.template get<float>(g_.blocks[2] + 2 * lanes());
    return sums_ != nullptr && means_ != nullptr && spread_.prepare(g_, work.columns);
  }

  /// Computes the means of a row of blocks, spreads them to `row`, and adds the elements that the
  /// blocks cover to `e`. @return the means
  HWY_INLINE const float* operator()(const T* HWY_RESTRICT x, const Pool& pool,
                                     float* HWY_RESTRICT row, Extremes& e) const {
    for (std::int64_t w = 0; w < g_.extent[2]; w += lanes()) {
      const Columns c = pool_columns<Elements>(g_, pool, x, w);
      hn::StoreU(c.sum, df, sums_ + w);
      hn::StoreU(c.low, df, low_ + w);
      hn::StoreU(c.high, df, high_ + w);
    }
    average(pool, e);
    spread_(means_, row);
    if (g_.covers_pools()) {
      bound_columns(row, e);
    } else {
      bound_elements(x, pool, row, e);
    }
    return means_;
  }

 private:
  static constexpr hn::ScalableTag<float> df = {};
  using VF = hn::Vec<hn::ScalableTag<float>>;

  static std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(df)); }

  /// Computes the means of the blocks whose column sums are in `sums_`.
  HWY_INLINE void average(const Pool& pool, Extremes& e) const {
    const std::int64_t blocks = g_.blocks[2], block = g_.block[2];
    const std::int64_t columns = std::min(blocks * block, g_.extent[2]);
    std::fill(sums_ + columns, sums_ + blocks * block, 0.0F);
    if (block != padded_) {
      // Moves blocks to where blocks of `padded_` columns begin, the last one first.
      for (std::int64_t b = blocks - 1; b >= 0; --b) {
        std::memmove(sums_ + b * padded_, sums_ + b * block, block * sizeof(float));
        std::fill_n(sums_ + b * padded_ + block, padded_ - block, 0.0F);
      }
    }
    for (std::int64_t width = padded_; width > 1; width /= 2) add_pairs(blocks * width / 2);

    const VF count = hn::Set(df, static_cast<float>(pool.rows() * block));
    const std::int64_t last = blocks - 1;
    const float last_sum = sums_[last];
    const std::int64_t last_width = g_.pool_end(2, last) - g_.pool_begin(2, last);
    for (std::int64_t b = 0; b < blocks; b += lanes()) {
      const VF quotient = hn::Div(hn::LoadU(df, sums_ + b), count);
      e.nan = hn::Or(e.nan, hn::And(first(blocks - b), hn::IsNaN(quotient)));
      hn::StoreU(nearest_bf16_value(df, quotient), df, means_ + b);
    }
    means_[last] =
        float_of_bf16(bf16_nearest(last_sum / static_cast<float>(pool.rows() * last_width)));
  }

  /// Adds `count` adjacent pairs in `sums_`.
  HWY_INLINE void add_pairs(std::int64_t count) const {
    for (std::int64_t i = 0; i < count; i += lanes()) {
      const VF a = hn::LoadU(df, sums_ + 2 * i);
      const VF b = hn::LoadU(df, sums_ + 2 * i + lanes());
      hn::StoreU(hn::Add(hn::ConcatEven(df, b, a), hn::ConcatOdd(df, b, a)), df, sums_ + i);
    }
  }

  /// Adds the columns of a row of blocks to `e`, for blocks that cover what they average.
  HWY_INLINE void bound_columns(const float* HWY_RESTRICT row, Extremes& e) const {
    const std::int64_t width = g_.extent[2];
    for (std::int64_t w = 0; w < width; w += lanes()) {
      bound(hn::LoadU(df, low_ + w), hn::LoadU(df, high_ + w), row, w, e);
    }
  }

  /// Adds the elements that a row of blocks covers to `e`, one by one.
  HWY_INLINE void bound_elements(const T* HWY_RESTRICT x, const Pool& pool,
                                 const float* HWY_RESTRICT row, Extremes& e) const {
    const std::int64_t width = g_.extent[2];
    for (std::int64_t d = g_.cover_begin(0, pool.bd); d < g_.cover_begin(0, pool.bd + 1); ++d) {
      for (std::int64_t h = g_.cover_begin(1, pool.bh); h < g_.cover_begin(1, pool.bh + 1); ++h) {
        const T* const from = x + (d * g_.extent[1] + h) * width;
        for (std::int64_t w = 0; w < width; w += lanes()) {
          const VF v = loaded_once(Elements::load(df, from + w));
          e.nan = hn::Or(e.nan, hn::And(first(width - w), hn::IsNaN(v)));
          bound(v, v, row, w, e);
        }
      }
    }
  }

  HWY_INLINE void bound(VF low, VF high, const float* row, std::int64_t w, Extremes& e) const {
    const auto inside = first(g_.extent[2] - w);
    const VF mean = hn::LoadU(df, g_.blocks[2] == 1 ? row : row + w);
    e.add(hn::IfThenElse(inside, low, hn::Set(df, Extremes::kNone)),
          hn::IfThenElse(inside, high, hn::Set(df, -Extremes::kNone)),
          hn::IfThenElseZero(inside, mean));
  }

  static HWY_INLINE hn::Mask<hn::ScalableTag<float>> first(std::int64_t count) {
    return hn::FirstN(df, static_cast<std::size_t>(std::min(count, lanes())));
  }

  const DivisionGeometry& g_;
  std::int64_t padded_;  ///< a block's columns, rounded up to a power of two
  float* sums_ = nullptr;
  float* low_ = nullptr;
  float* high_ = nullptr;
  float* means_ = nullptr;
  Spread spread_;
};

}  // namespace division
}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
