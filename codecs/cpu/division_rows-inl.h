// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_DIVISION_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_DIVISION_ROWS_INL_H_
#undef CINCH_CODECS_CPU_DIVISION_ROWS_INL_H_
#else
#define CINCH_CODECS_CPU_DIVISION_ROWS_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>

#include "codecs/division.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Floats that `spread_means` needs at `row`.
HWY_INLINE std::int64_t row_room(const DivisionGeometry& g, std::int64_t lanes) {
  return g.extent[2] + lanes;
}

/// Floats that a row of column sums needs, with blocks filled up to powers of two.
HWY_INLINE std::int64_t sums_room(const DivisionGeometry& g, std::int64_t lanes) {
  const auto padded =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(g.block[2])));
  return std::max(g.blocks[2] * padded, g.extent[2]) + 2 * lanes;
}

/// Nearest upsampling of a row of block means to the elements that they cover.
HWY_INLINE void spread_means(const DivisionGeometry& g, const float* HWY_RESTRICT means,
                             float* HWY_RESTRICT row) {
  const hn::ScalableTag<float> df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  // What is stored past a block's end, the next block overwrites.
  if (g.edge_ceil && g.block[2] <= lanes) {
    for (std::int64_t b = 0; b < g.blocks[2]; ++b) {
      hn::StoreU(hn::Set(df, means[b]), df, row + b * g.block[2]);
    }
    return;
  }
  std::int64_t w = 0;
  for (std::int64_t b = 0; b < g.blocks[2]; ++b) {
    const auto mean = hn::Set(df, means[b]);
    const std::int64_t end = g.cover_begin(2, b + 1);
    for (; w < end; w += lanes) hn::StoreU(mean, df, row + w);
    w = end;
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
