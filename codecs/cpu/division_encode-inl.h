// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_DIVISION_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_DIVISION_ENCODE_INL_H_
#undef CINCH_CODECS_CPU_DIVISION_ENCODE_INL_H_
#else
#define CINCH_CODECS_CPU_DIVISION_ENCODE_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/bits-inl.h"
#include "codecs/cpu/division_job.h"
#include "codecs/cpu/division_quantize-inl.h"
#include "codecs/cpu/division_rows-inl.h"
#include "codecs/cpu/float_formats-inl.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/workspace.h"
#include "codecs/layout.h"
#include "codecs/reference/division_plane.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Sums of the rows of block row (bd, bh), column by column: `columns` of them,
/// and up to a vector more.
HWY_INLINE void column_sums(const DivisionGeometry& g, const float* HWY_RESTRICT x, std::int64_t bd,
                            std::int64_t bh, std::int64_t columns, float* HWY_RESTRICT sums) {
  const hn::ScalableTag<float> df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  const std::int64_t d0 = g.pool_begin(0, bd), d1 = g.pool_end(0, bd);
  const std::int64_t h0 = g.pool_begin(1, bh), h1 = g.pool_end(1, bh);
  const std::int64_t width = g.extent[2];
  for (std::int64_t w = 0; w < columns; w += lanes) {
    const float* row = x + (d0 * g.extent[1] + h0) * width + w;
    auto sum = hn::LoadU(df, row);
    for (std::int64_t h = h0 + 1; h < h1; ++h) {
      row += width;
      sum = hn::Add(sum, hn::LoadU(df, row));
    }
    for (std::int64_t d = d0 + 1; d < d1; ++d) {
      row = x + (d * g.extent[1] + h0) * width + w;
      for (std::int64_t h = h0; h < h1; ++h, row += width) {
        sum = hn::Add(sum, hn::LoadU(df, row));
      }
    }
    hn::StoreU(sum, df, sums + w);
  }
}

/// Moves blocks of `block` sums to where blocks of `padded` begin, zeros
/// between; from the last.
HWY_INLINE void spread_blocks(float* sums, std::int64_t blocks, std::int64_t block,
                              std::int64_t padded) {
  if (block == padded) return;
  for (std::int64_t b = blocks - 1; b >= 0; --b) {
    std::memmove(sums + b * padded, sums + b * block, block * sizeof(float));
    std::fill_n(sums + b * padded + block, padded - block, 0.0F);
  }
}

/// Adds adjacent pairs of `count` numbers; `to` may be `from`.
HWY_INLINE void add_pairs(const float* from, std::int64_t count, float* to) {
  const hn::ScalableTag<float> df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  for (std::int64_t i = 0; i < count / 2; i += lanes) {
    const auto a = hn::LoadU(df, from + 2 * i);
    const auto b = hn::LoadU(df, from + 2 * i + lanes);
    hn::StoreU(hn::Add(hn::ConcatEven(df, b, a), hn::ConcatOdd(df, b, a)), df, to + i);
  }
}

/// Means of block row (bd, bh), rounded to bfloat16: as floats to `means`,
/// their bits to `out`. `sums`, `means` and `bits` have room for a vector more.
HWY_INLINE void pool_block_row(const DivisionGeometry& g, const float* x, std::int64_t bd,
                               std::int64_t bh, float* HWY_RESTRICT sums, float* HWY_RESTRICT means,
                               std::uint16_t* HWY_RESTRICT bits, std::byte* out) {
  const hn::ScalableTag<float> df;
  const hn::Rebind<std::uint16_t, decltype(df)> d16;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  const std::int64_t blocks = g.blocks[2];
  const std::int64_t columns = std::min(blocks * g.block[2], g.extent[2]);
  const auto padded =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(g.block[2])));

  const std::int64_t rows =
      (g.pool_end(0, bd) - g.pool_begin(0, bd)) * (g.pool_end(1, bh) - g.pool_begin(1, bh));
  const float* from = sums;
  if (rows == 1 && padded > 1 && padded == g.block[2] && columns == blocks * padded) {
    // Whole blocks of a single row are their own column sums.
    from = x + (g.pool_begin(0, bd) * g.extent[1] + g.pool_begin(1, bh)) * g.extent[2];
  } else {
    column_sums(g, x, bd, bh, columns, sums);
    std::fill(sums + columns, sums + blocks * g.block[2], 0.0F);
    spread_blocks(sums, blocks, g.block[2], padded);
  }
  for (std::int64_t width = padded; width > 1; width /= 2) {
    add_pairs(from, blocks * width, sums);
    from = sums;
  }

  const auto count = hn::Set(df, static_cast<float>(rows * g.block[2]));
  const std::int64_t last = blocks - 1;
  const float last_sum = sums[last];
  const std::int64_t last_width = g.pool_end(2, last) - g.pool_begin(2, last);
  for (std::int64_t b = 0; b < blocks; b += lanes) {
    const auto mean = lanes_to_bf16(df, hn::Div(hn::LoadU(df, sums + b), count));
    hn::StoreU(hn::TruncateTo(d16, mean), d16, bits + b);
    hn::StoreU(lanes_of_bf16(df, mean), df, means + b);
  }
  bits[last] = bf16_nearest(last_sum / static_cast<float>(rows * last_width));
  means[last] = float_of_bf16(bits[last]);
  std::memcpy(out, bits, blocks * 2);
}

/// Residuals of one plane, and what bounds them.
struct Residuals {
  float min;
  float max;
  bool good;  ///< every element finite and not too large
};

/// Means of a plane to `out`, residuals to `r` (room for a vector more).
HWY_INLINE Residuals subtract_means(const cpu::DivisionJob& job, const float* HWY_RESTRICT x,
                                    cpu::Workspace& work, float* HWY_RESTRICT r, std::byte* out) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  const DivisionGeometry& g = job.geometry;
  const std::int64_t width = g.extent[2];
  float* const row = work.row.get<float>(row_room(g, lanes));
  float* const sums = work.sums.get<float>(sums_room(g, lanes));
  float* const means = work.means.get<float>(2 * (g.blocks[2] + lanes));
  auto* const mean_bits = reinterpret_cast<std::uint16_t*>(means + g.blocks[2] + lanes);
  if (row == nullptr || sums == nullptr || means == nullptr) return {0.0F, 0.0F, false};

  const auto magnitude_mask = hn::Set(di, 0x7FFFFFFF);
  auto min = hn::Set(df, 0x1p127F);
  auto max = hn::Set(df, -0x1p127F);
  const std::int64_t ahead = std::max<std::int64_t>(g.block[1] * width, 512);
  // As integers, so that infinities and NaNs are the largest of all.
  auto largest = hn::Zero(di);

  for (std::int64_t bd = 0; bd < g.blocks[0]; ++bd) {
    const std::int64_t d0 = g.cover_begin(0, bd), d1 = g.cover_begin(0, bd + 1);
    for (std::int64_t bh = 0; bh < g.blocks[1]; ++bh) {
      pool_block_row(g, x, bd, bh, sums, means, mean_bits,
                     out + 2 * (bd * g.blocks[1] + bh) * g.blocks[2]);
      const std::int64_t h0 = g.cover_begin(1, bh), h1 = g.cover_begin(1, bh + 1);
      spread_means(g, means, row);
      for (std::int64_t d = d0; d < d1; ++d) {
        for (std::int64_t h = h0; h < h1; ++h) {
          const std::int64_t begin = (d * g.extent[1] + h) * width;
          const auto step = [&](std::int64_t w, auto keep) {
            // The column sums of the next rows read too many streams for the
            // hardware to foresee.
            hwy::Prefetch(x + begin + w + ahead);
            const auto value = keep(hn::LoadU(df, x + begin + w), hn::Zero(df));
            const auto residual = hn::Sub(value, hn::LoadU(df, row + w));
            const auto magnitude = hn::And(hn::BitCast(di, value), magnitude_mask);
            min = hn::Min(min, keep(residual, min));
            max = hn::Max(max, keep(residual, max));
            largest = hn::Max(largest, magnitude);
            return residual;
          };
          std::int64_t w = 0;
          for (; w + lanes <= width; w += lanes) {
            hn::StoreU(step(w, [](auto v, auto) { return v; }), df, r + begin + w);
          }
          if (w < width) {
            const auto mask = hn::FirstN(df, static_cast<std::size_t>(width - w));
            const auto residual =
                step(w, [&](auto v, auto other) { return hn::IfThenElse(mask, v, other); });
            hn::BlendedStore(residual, mask, df, r + begin + w);
          }
        }
      }
    }
  }
  const auto limit = static_cast<std::int32_t>(float_bits(kAffineMaxMagnitude));
  return {hn::GetLane(hn::MinOfLanes(df, min)), hn::GetLane(hn::MaxOfLanes(df, max)),
          hn::GetLane(hn::MaxOfLanes(di, largest)) <= limit};
}

/// Encodes planes [first, last). @pre first is a multiple of planes_per_byte
bool division_encode(const cpu::DivisionJob& job, const void* source, std::byte* out,
                     std::int64_t first, std::int64_t last) {
  const PlaneLayout& layout = job.what.layout;
  const ElementType type = job.what.type;
  const auto size = static_cast<std::int64_t>(element_size(type));
  const std::int64_t n = layout.plane_size();
  const std::int64_t blocks = job.geometry.block_count();
  const auto slack = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint8_t>()));
  const int bits = job.parameters.bits;
  const bool dense = has_dense_planes(layout);
  const std::int64_t readable = reach(layout);
  const std::int64_t tile = dense ? 1 : cpu::planes_per_tile(layout, size);

  cpu::Workspace& work = cpu::workspace();
  auto* const gathered = dense ? nullptr : work.tile.get<std::byte>(tile * n * size);
  float* const plane = work.plane.get<float>(n + slack);
  float* const r = work.residual.get<float>(n + slack);
  if ((!dense && gathered == nullptr) || plane == nullptr || r == nullptr) return false;

  CodeStream codes(bits, out + job.sections.codes + first * n / 8 * bits);
  CodeStream signs(1, out + job.sections.signs + first * n / 8);
  for (std::int64_t p = first; p < last; ++p) {
    const std::int64_t offset = plane_offset(layout, p);
    const std::byte* elements = static_cast<const std::byte*>(source) + offset * size;
    if (!dense) {
      const std::int64_t in_tile = (p - first) % tile;
      if (in_tile == 0) {
        cpu::gather_planes(layout, size, source, p, std::min(tile, last - p), gathered);
      }
      elements = gathered + in_tile * n * size;
    }
    // Vectors may reach past the plane, but not past the source.
    const float* x = reinterpret_cast<const float*>(elements);
    if (!dense || type != ElementType::float32 || offset + n + slack > readable) {
      to_floats(type, elements, n, plane);
      x = plane;
    }

    const Residuals residuals = subtract_means(job, x, work, r, out + p * blocks * 2);
    if (!residuals.good) return false;
    const AffineRange range = affine_range(residuals.min, residuals.max, bits);
    std::memcpy(out + job.sections.ranges + p * 4, &range, 4);

    std::uint8_t* const room = codes.room(work.codes, n, slack);
    if (room == nullptr || !quantize(job, r, n, p * n, range, work, room)) return false;
    codes.push(n);
    if (job.parameters.with_sign) {
      std::uint8_t* const sign_room = signs.room(work.signs, n, slack);
      if (sign_room == nullptr) return false;
      if (!positives(x, n, sign_room)) return false;
      signs.push(n);
    }
  }
  codes.finish();
  if (job.parameters.with_sign) signs.finish();
  return true;
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
