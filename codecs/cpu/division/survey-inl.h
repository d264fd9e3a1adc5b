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

#include "codecs/cpu/division/job.h"
#include "codecs/cpu/division/pool-inl.h"
#include "codecs/cpu/division/rows-inl.h"
#include "codecs/cpu/division/wide-inl.h"
#include "codecs/cpu/vectors/float_formats-inl.h"
#include "codecs/cpu/workspace.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace division {

/// The first of the two passes over a plane: computes block means and bounds of the residuals.
///
/// Rounding is monotonic, so the least x - L of a block's column is that of its least x. So where
/// blocks cover what they average, one pass over the elements gives sums, least and largest.
template <class Elements>
class Survey {
 public:
  using T = typename Elements::Raw;

  explicit Survey(const DivisionGeometry& g)
      : g_(g),
        padded_(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(g.block[2])))),
        wide_(g) {
    // Counts must be exact as floats.
    in_vector_ = g.covers_pools() && padded_ <= std::min<std::int64_t>(lanes(), 8) &&
                 (padded_ == g.block[2] || g.blocks[2] == 1) &&
                 g.block[0] * g.block[1] <= std::int64_t{1} << 20;
    const std::int64_t width = g.extent[2], last = width / lanes() * lanes();
    for (std::int64_t lane = 0; lane < lanes(); ++lane) {
      const std::int64_t left = width - (last + lane) / padded_ * padded_;
      last_widths_[lane] = static_cast<float>(left > 0 ? std::min(left, padded_) : padded_);
    }
  }

  /// @return false when memory ran out
  bool prepare(cpu::Workspace& work) {
    return pools_.prepare(g_, work.pools) && (in_vector_ || wide_.prepare(work));
  }

  /// Surveys the plane at `x`, which has a readable vector behind it. Writes its means as bfloat16
  /// to `means`, and to `rows`, spread over columns, a row for each row of blocks.
  HWY_INLINE cpu::DivisionBounds operator()(const T* HWY_RESTRICT x, std::byte* HWY_RESTRICT means,
                                            float* HWY_RESTRICT rows) const {
    Extremes e;
    const std::int64_t pitch = Spread::pitch(g_), blocks = g_.blocks[2];
    for (const Pool& pool : pools_) {
      if (in_vector_) {
        survey_in_vector(x, pool, rows, e);
        put_means(rows, padded_, means);
      } else {
        put_means(wide_(x, pool, rows, e), 1, means);
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

  /// For a row of blocks that lie within vectors: adding the lanes 1, 2 and 4 away leaves the sum,
  /// hence the mean, in all of a block's lanes.
  HWY_INLINE void survey_in_vector(const T* HWY_RESTRICT x, const Pool& pool,
                                   float* HWY_RESTRICT row, Extremes& e) const {
    const std::int64_t width = g_.extent[2];
    const bool one_block = g_.blocks[2] == 1;
    const std::int64_t count = pool.rows() * padded_;
    const bool exact_inverse = std::has_single_bit(static_cast<std::uint64_t>(count));
    const auto finish = [&](std::int64_t w, VF low, VF high, VF quotient) {
      e.nan = hn::Or(e.nan, hn::IsNaN(quotient));
      const VF mean = nearest_bf16_value(df, quotient);
      hn::StoreU(mean, df, row + w);
      if (one_block) hn::StoreU(hn::Set(df, row[0]), df, row);
      e.add(low, high, mean);
    };
    std::int64_t w = 0;
    if (lanes() <= width) {
      const auto size = static_cast<float>(count);
      const VF by = hn::Set(df, exact_inverse ? 1.0F / size : size);
      for (; w + lanes() <= width; w += lanes()) {
        const Columns c = pool_columns<Elements>(g_, pool, x, w);
        const VF sum = block_sums(c.sum);
        finish(w, c.low, c.high, exact_inverse ? hn::Mul(sum, by) : hn::Div(sum, by));
      }
      if (w == width) return;
    }
    const auto inside = hn::FirstN(df, static_cast<std::size_t>(width - w));
    const Columns c = pool_columns<Elements>(g_, pool, x, w);
    const VF sum = block_sums(hn::IfThenElseZero(inside, c.sum));
    const VF rows = hn::Set(df, static_cast<float>(pool.rows()));
    finish(w, hn::IfThenElse(inside, c.low, hn::Set(df, Extremes::kNone)),
           hn::IfThenElse(inside, c.high, hn::Set(df, -Extremes::kNone)),
           hn::Div(sum, hn::Mul(rows, hn::LoadU(df, last_widths_))));
  }

  HWY_INLINE VF block_sums(VF v) const {
    if (padded_ > 1) v = hn::Add(v, hn::Shuffle2301(v));
    if (padded_ > 2) v = hn::Add(v, hn::Shuffle1032(v));
    if (padded_ > 4) v = hn::Add(v, hn::SwapAdjacentBlocks(v));
    return v;
  }

  /// Writes the means of a row of blocks, `stride` floats apart, as bfloat16.
  HWY_INLINE void put_means(const float* from, std::int64_t stride, std::byte* to) const {
    for (std::int64_t b = 0; b < g_.blocks[2]; ++b) {
      const auto bits = static_cast<std::uint16_t>(float_bits(from[b * stride]) >> 16);
      std::memcpy(to + 2 * b, &bits, 2);
    }
  }

  const DivisionGeometry& g_;
  std::int64_t padded_;  ///< a block's columns, rounded up to a power of two
  bool in_vector_;       ///< blocks lie within vectors
  /// For each lane of a row's last vector, the number of columns of its block.
  float last_widths_[HWY_MAX_BYTES / sizeof(float)];
  Pools pools_;
  WideSurvey<Elements> wide_;
};

}  // namespace division
}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
