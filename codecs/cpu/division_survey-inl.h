// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_DIVISION_SURVEY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_DIVISION_SURVEY_INL_H_
#undef CINCH_CODECS_CPU_DIVISION_SURVEY_INL_H_
#else
#define CINCH_CODECS_CPU_DIVISION_SURVEY_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "codecs/cpu/division_job.h"
#include "codecs/cpu/division_rows-inl.h"
#include "codecs/cpu/float_formats-inl.h"
#include "codecs/cpu/workspace.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// x, held in a register: GCC would load it anew for every use, and unaligned loads are what there
/// are too many of.
template <class V>
HWY_INLINE V loaded_once(V x) {
#if HWY_COMPILER_GCC && HWY_ARCH_X86
  asm("" : "+v"(x.raw));
#endif
  return x;
}

/// The first of the two passes over a plane: its block means, and what bounds its residuals.
///
/// Rounding is monotonic, so the least x - L of a column of a block is that of its least x: where
/// blocks cover what they average, one reading of the elements tells their sums, least and largest.
template <class Elements>
class DivisionSurvey {
 public:
  using T = typename Elements::T;

  explicit DivisionSurvey(const cpu::DivisionJob& job) : g_(job.geometry) {
    padded_ = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(g_.block[2])));
    covers_pools_ = true;
    for (int axis = 0; axis < 3; ++axis) {
      covers_pools_ &= g_.edge_ceil || g_.extent[axis] % g_.block[axis] == 0;
    }
    // Counts must be exact as floats.
    in_vector_ = covers_pools_ && padded_ <= std::min<std::int64_t>(lanes(), 8) &&
                 (padded_ == g_.block[2] || g_.blocks[2] == 1) &&
                 g_.block[0] * g_.block[1] <= std::int64_t{1} << 20;
    for (std::int64_t lane = 0; lane < lanes(); ++lane) {
      const std::int64_t block = (g_.extent[2] / lanes() * lanes() + lane) / padded_;
      const std::int64_t left = g_.extent[2] - block * padded_;
      last_widths_[lane] = static_cast<float>(left > 0 ? std::min(left, padded_) : padded_);
    }
    ahead_ = std::max<std::int64_t>(g_.block[1] * g_.extent[2], 512);
  }

  /// @return false when memory ran out
  bool prepare(cpu::Workspace& work) {
    const std::int64_t columns = std::max(g_.blocks[2] * padded_, g_.extent[2]) + 2 * lanes();
    sums_ = work.sums.template get<float>(3 * columns);
    low_ = sums_ + columns;
    high_ = low_ + columns;
    means_ = work.means.template get<float>(g_.blocks[2] + 2 * lanes());
    return sums_ != nullptr && means_ != nullptr && spread_.prepare(g_, work.columns) &&
           make_pools(work.pools);
  }

  /// Surveys block rows [first, last) of the plane at `x`, behind which a vector is readable.
  /// Writes their means, as bfloat16, to where `means` has those of the whole plane, and spread
  /// over columns to where `rows` has those of the whole plane.
  HWY_INLINE cpu::DivisionBounds operator()(const T* HWY_RESTRICT x, std::int64_t first,
                                            std::int64_t last, std::byte* HWY_RESTRICT means,
                                            float* HWY_RESTRICT rows) const {
    Extremes e;
    const std::int64_t pitch = Spread::pitch(g_), blocks = g_.blocks[2];
    rows += first * pitch;
    means += first * blocks * 2;
    for (const Pool& pool : pools_.subspan(first, last - first)) {
      if (in_vector_) {
        in_vector(x, pool, rows, e);
        put_means(rows, padded_, means);
      } else {
        column_stats(x, pool);
        pool_columns(pool, e);
        put_means(means_, 1, means);
        spread_(means_, rows);
        if (covers_pools_) {
          bound_columns(rows, e);
        } else {
          bound_elements(x, pool, rows, e);
        }
      }
      rows += pitch;
      means += blocks * 2;
    }
    return e.bounds();
  }

 private:
  static constexpr hn::ScalableTag<float> df = {};
  using VF = hn::Vec<hn::ScalableTag<float>>;

  static std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(df)); }

  /// What a row of blocks averages.
  struct Pool {
    std::int64_t bd, bh;
    std::int64_t first;   ///< logical index of its first element
    std::int64_t depths;  ///< of `heights` rows of elements each
    std::int64_t heights;
    float rows;
    float scale;  ///< elements of a whole block, or their inverse where that is exact
    bool inverse;
  };

  bool make_pools(cpu::Buffer& buffer) {
    auto* const pools = buffer.get<Pool>(g_.blocks[0] * g_.blocks[1]);
    if (pools == nullptr) return false;
    Pool* next = pools;
    for (std::int64_t bd = 0; bd < g_.blocks[0]; ++bd) {
      const std::int64_t d = g_.pool_begin(0, bd);
      for (std::int64_t bh = 0; bh < g_.blocks[1]; ++bh) {
        const std::int64_t h = g_.pool_begin(1, bh);
        const std::int64_t depths = g_.pool_end(0, bd) - d, heights = g_.pool_end(1, bh) - h;
        const std::int64_t count = depths * heights * g_.block[2];
        const bool inverse = std::has_single_bit(static_cast<std::uint64_t>(count));
        const auto size = static_cast<float>(count);
        *next++ = {bd,
                   bh,
                   (d * g_.extent[1] + h) * g_.extent[2],
                   depths,
                   heights,
                   static_cast<float>(depths * heights),
                   inverse ? 1.0F / size : size,
                   inverse};
      }
    }
    pools_ = {pools, next};
    return true;
  }

  /// Least and largest, lane by lane, of elements x and residuals x - L, and whether a NaN was
  /// among the elements.
  struct Extremes {
    VF low, high, residual_low, residual_high;
    hn::Mask<hn::ScalableTag<float>> nan;

    HWY_INLINE Extremes()
        : low(hn::Set(df, kNone)),
          high(hn::Set(df, -kNone)),
          residual_low(low),
          residual_high(high),
          nan(hn::MaskFromVec(hn::Zero(df))) {}

    HWY_INLINE void add(VF least, VF largest, VF mean) {
      low = hn::Min(low, least);
      high = hn::Max(high, largest);
      residual_low = hn::Min(residual_low, hn::Sub(least, mean));
      residual_high = hn::Max(residual_high, hn::Sub(largest, mean));
    }

    HWY_INLINE cpu::DivisionBounds bounds() const {
      const auto limit = hn::Set(df, kAffineMaxMagnitude);
      if (!hn::AllFalse(df, nan) ||
          !hn::AllTrue(df, hn::And(hn::Ge(low, hn::Neg(limit)), hn::Le(high, limit)))) {
        return {0.0F, 0.0F, false};
      }
      return {hn::GetLane(hn::MinOfLanes(df, residual_low)),
              hn::GetLane(hn::MaxOfLanes(df, residual_high)), true};
    }
  };
  /// Larger than what bounds any good plane, also less a mean.
  static constexpr float kNone = 0x1p120F;

  struct Column {
    VF sum, low, high;
  };

  /// Sums, front to back and top to bottom, least and largest of a vector of columns of a pool.
  HWY_INLINE Column column(const T* HWY_RESTRICT x, const Pool& pool, std::int64_t w) const {
    const std::int64_t width = g_.extent[2], ahead = ahead_;
    const T* at = x + pool.first + w;
    VF sum = Elements::load(df, at), low = sum, high = sum;
    hwy::Prefetch(at + ahead);
    std::int64_t left = pool.heights - 1;
    for (std::int64_t d = 1;; ++d) {
      for (; left > 0; --left) {
        at += width;
        // The hardware can't foresee so many streams.
        hwy::Prefetch(at + ahead);
        const VF v = loaded_once(Elements::load(df, at));
        sum = hn::Add(sum, v);
        low = hn::Min(low, v);
        high = hn::Max(high, v);
      }
      if (d == pool.depths) break;
      at += (g_.extent[1] - pool.heights) * width;
      left = pool.heights;
    }
    return {sum, low, high};
  }

  /// Sums within blocks of `padded` lanes, in every lane of the block.
  static HWY_INLINE VF block_sums(VF v, std::int64_t padded) {
    if (padded > 1) v = hn::Add(v, hn::Shuffle2301(v));
    if (padded > 2) v = hn::Add(v, hn::Shuffle1032(v));
    if (padded > 4) v = hn::Add(v, hn::SwapAdjacentBlocks(v));
    return v;
  }

  /// Means and bounds of a row of blocks that lie within vectors; the means to `row`, spread.
  HWY_INLINE void in_vector(const T* HWY_RESTRICT x, const Pool& pool, float* HWY_RESTRICT row,
                            Extremes& e) const {
    const std::int64_t width = g_.extent[2];
    const bool one_block = g_.blocks[2] == 1;
    const VF scale = hn::Set(df, pool.scale);
    const auto finish = [&](std::int64_t w, VF low, VF high, VF quotient) {
      e.nan = hn::Or(e.nan, hn::IsNaN(quotient));
      const VF mean = nearest_bf16_value(df, quotient);
      hn::StoreU(mean, df, row + w);
      if (one_block) hn::StoreU(hn::Set(df, row[0]), df, row);
      e.add(low, high, mean);
    };
    std::int64_t w = 0;
    for (; w + lanes() <= width; w += lanes()) {
      const Column c = column(x, pool, w);
      const VF sum = block_sums(c.sum, padded_);
      finish(w, c.low, c.high, pool.inverse ? hn::Mul(sum, scale) : hn::Div(sum, scale));
    }
    if (w == width) return;
    const auto inside = hn::FirstN(df, static_cast<std::size_t>(width - w));
    const Column c = column(x, pool, w);
    const VF sum = block_sums(hn::IfThenElseZero(inside, c.sum), padded_);
    const VF rows = hn::Set(df, pool.rows);
    finish(w, hn::IfThenElse(inside, c.low, hn::Set(df, kNone)),
           hn::IfThenElse(inside, c.high, hn::Set(df, -kNone)),
           hn::Div(sum, hn::Mul(rows, hn::LoadU(df, last_widths_))));
  }

  /// Sums, least and largest of every column of a pool.
  HWY_INLINE void column_stats(const T* HWY_RESTRICT x, const Pool& pool) const {
    for (std::int64_t w = 0; w < g_.extent[2]; w += lanes()) {
      const Column c = column(x, pool, w);
      hn::StoreU(c.sum, df, sums_ + w);
      hn::StoreU(c.low, df, low_ + w);
      hn::StoreU(c.high, df, high_ + w);
    }
  }

  /// Means of the blocks whose columns' sums are in `sums_`.
  HWY_INLINE void pool_columns(const Pool& pool, Extremes& e) const {
    const std::int64_t blocks = g_.blocks[2], block = g_.block[2];
    const std::int64_t columns = std::min(blocks * block, g_.extent[2]);
    std::fill(sums_ + columns, sums_ + blocks * block, 0.0F);
    if (block != padded_) {
      // To where blocks of `padded_` begin, from the last one on.
      for (std::int64_t b = blocks - 1; b >= 0; --b) {
        std::memmove(sums_ + b * padded_, sums_ + b * block, block * sizeof(float));
        std::fill_n(sums_ + b * padded_ + block, padded_ - block, 0.0F);
      }
    }
    for (std::int64_t width = padded_; width > 1; width /= 2) add_pairs(blocks * width / 2);

    const std::int64_t pool_rows = pool.depths * pool.heights;
    const auto count = hn::Set(df, static_cast<float>(pool_rows * block));
    const std::int64_t last = blocks - 1;
    const float last_sum = sums_[last];
    const std::int64_t last_width = g_.pool_end(2, last) - g_.pool_begin(2, last);
    for (std::int64_t b = 0; b < blocks; b += lanes()) {
      const VF quotient = hn::Div(hn::LoadU(df, sums_ + b), count);
      const auto inside = hn::FirstN(df, static_cast<std::size_t>(std::min(lanes(), blocks - b)));
      e.nan = hn::Or(e.nan, hn::And(inside, hn::IsNaN(quotient)));
      hn::StoreU(nearest_bf16_value(df, quotient), df, means_ + b);
    }
    means_[last] =
        float_of_bf16(bf16_nearest(last_sum / static_cast<float>(pool_rows * last_width)));
  }

  /// Adds adjacent pairs of what is in `sums_`: `count` pairs.
  HWY_INLINE void add_pairs(std::int64_t count) const {
    for (std::int64_t i = 0; i < count; i += lanes()) {
      const VF a = hn::LoadU(df, sums_ + 2 * i);
      const VF b = hn::LoadU(df, sums_ + 2 * i + lanes());
      hn::StoreU(hn::Add(hn::ConcatEven(df, b, a), hn::ConcatOdd(df, b, a)), df, sums_ + i);
    }
  }

  /// Bounds of a row of blocks that cover what they average.
  HWY_INLINE void bound_columns(const float* HWY_RESTRICT row, Extremes& e) const {
    const std::int64_t width = g_.extent[2];
    for (std::int64_t w = 0; w < width; w += lanes()) {
      const auto inside = hn::FirstN(df, static_cast<std::size_t>(std::min(lanes(), width - w)));
      e.add(hn::IfThenElse(inside, hn::LoadU(df, low_ + w), hn::Set(df, kNone)),
            hn::IfThenElse(inside, hn::LoadU(df, high_ + w), hn::Set(df, -kNone)), mean_at(row, w));
    }
  }

  /// Bounds of what a row of blocks covers, element by element.
  HWY_INLINE void bound_elements(const T* HWY_RESTRICT x, const Pool& pool,
                                 const float* HWY_RESTRICT row, Extremes& e) const {
    const std::int64_t width = g_.extent[2];
    for (std::int64_t d = g_.cover_begin(0, pool.bd); d < g_.cover_begin(0, pool.bd + 1); ++d) {
      for (std::int64_t h = g_.cover_begin(1, pool.bh); h < g_.cover_begin(1, pool.bh + 1); ++h) {
        const T* const from = x + (d * g_.extent[1] + h) * width;
        for (std::int64_t w = 0; w < width; w += lanes()) {
          const auto inside =
              hn::FirstN(df, static_cast<std::size_t>(std::min(lanes(), width - w)));
          const VF v = Elements::load(df, from + w);
          e.nan = hn::Or(e.nan, hn::And(inside, hn::IsNaN(v)));
          e.add(hn::IfThenElse(inside, v, hn::Set(df, kNone)),
                hn::IfThenElse(inside, v, hn::Set(df, -kNone)), mean_at(row, w));
        }
      }
    }
  }

  HWY_INLINE VF mean_at(const float* row, std::int64_t w) const {
    return hn::LoadU(df, g_.blocks[2] == 1 ? row : row + w);
  }

  /// Writes the means of a row of blocks, `stride` floats apart, as bfloat16.
  HWY_INLINE void put_means(const float* from, std::int64_t stride, std::byte* to) const {
    for (std::int64_t b = 0; b < g_.blocks[2]; ++b) {
      const auto bits = static_cast<std::uint16_t>(float_bits(from[b * stride]) >> 16);
      std::memcpy(to + 2 * b, &bits, 2);
    }
  }

  const DivisionGeometry& g_;
  std::int64_t padded_;  ///< a block's columns filled up to a power of two
  std::int64_t ahead_;   ///< elements from what is read to what is fetched
  bool covers_pools_;    ///< every block covers what it averages, and together they cover the plane
  bool in_vector_;       ///< and lies within a vector
  /// Columns of the block that each lane of a row's last vector belongs to.
  float last_widths_[HWY_MAX_BYTES / sizeof(float)];
  float* sums_ = nullptr;
  float* low_ = nullptr;
  float* high_ = nullptr;
  float* means_ = nullptr;
  Spread spread_;
  std::span<const Pool> pools_;  ///< one for each row of blocks
};

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
