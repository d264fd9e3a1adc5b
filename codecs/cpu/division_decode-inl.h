// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_DIVISION_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_DIVISION_DECODE_INL_H_
#undef CINCH_CODECS_CPU_DIVISION_DECODE_INL_H_
#else
#define CINCH_CODECS_CPU_DIVISION_DECODE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/bits-inl.h"
#include "codecs/cpu/division_job.h"
#include "codecs/cpu/division_rows-inl.h"
#include "codecs/cpu/float_formats-inl.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/workspace.h"
#include "codecs/layout.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// One plane from its means (at `means`, bfloat16), range and codes to the n floats at `x`, and
/// nothing beyond. Loads up to a vector past the codes.
HWY_INLINE void add_means(const DivisionGeometry& g, const std::byte* means, AffineRange range,
                          const std::uint8_t* HWY_RESTRICT codes, float* HWY_RESTRICT block_values,
                          float* HWY_RESTRICT row, float* HWY_RESTRICT x) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<std::uint8_t, decltype(df)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  const float lo = float_of_bf16(range.lo);
  const auto step = hn::Set(df, float_of_bf16(range.step));
  const std::int64_t width = g.extent[2];
  const std::int64_t n = g.extent[0] * g.extent[1] * width;
  const auto value = [&](std::int64_t i, std::int64_t w) {
    const auto code = hn::PromoteTo(di, hn::LoadU(d8, codes + i));
    return hn::Add(hn::LoadU(df, row + w), hn::Mul(step, hn::ConvertTo(df, code)));
  };

  std::int64_t i = 0;
  for (std::int64_t d = 0; d < g.extent[0]; ++d) {
    for (std::int64_t h = 0; h < g.extent[1]; ++h) {
      const std::int64_t bd = g.covering(0, d);
      const std::int64_t bh = g.covering(1, h);
      if (h == g.cover_begin(1, bh)) {
        const std::byte* bits = means + 2 * (bd * g.blocks[1] + bh) * g.blocks[2];
        to_floats(ElementType::bfloat16, bits, g.blocks[2], block_values);
        for (std::int64_t b = 0; b < g.blocks[2]; ++b) block_values[b] += lo;
        spread_means(g, block_values, row);
      }
      // A vector may reach into the next row, which is written after, but not past the plane.
      std::int64_t w = 0;
      for (; w < width && i + w + lanes <= n; w += lanes) {
        hn::StoreU(value(i + w, w), df, x + i + w);
      }
      if (w < width) {
        HWY_ALIGN float rest[HWY_MAX_BYTES / sizeof(float)];
        hn::Store(value(i + w, w), df, rest);
        std::memcpy(x + i + w, rest, (width - w) * sizeof(float));
      }
      i += width;
    }
  }
}

/// Zeroes what is not positive; where only signs are read, the rest becomes 1.
HWY_INLINE void apply_signs(const std::uint8_t* HWY_RESTRICT signs, std::int64_t n, bool ones,
                            float* HWY_RESTRICT x) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<std::uint8_t, decltype(df)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto sign = hn::PromoteTo(di, hn::LoadU(d8, signs + i));
    const auto positive = hn::RebindMask(df, hn::Gt(sign, hn::Zero(di)));
    const auto v = ones ? hn::Set(df, 1.0F) : hn::LoadU(df, x + i);
    hn::StoreU(hn::IfThenElseZero(positive, v), df, x + i);
  }
  for (; i < n; ++i) x[i] = signs[i] == 0 ? 0.0F : ones ? 1.0F : x[i];
}

/// Decodes planes [first, last).
bool division_decode(const cpu::DivisionJob& job, const std::byte* in, void* target,
                     std::int64_t first, std::int64_t last) {
  const PlaneLayout& layout = job.what.layout;
  const DivisionGeometry& g = job.geometry;
  const ElementType type = job.what.type;
  const auto size = static_cast<std::int64_t>(element_size(type));
  const std::int64_t n = layout.plane_size();
  const std::int64_t blocks = g.block_count();
  const auto slack = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint8_t>()));
  const int bits = job.parameters.bits;
  const bool dense = has_dense_planes(layout);
  const std::int64_t tile = dense ? 1 : cpu::planes_per_tile(layout, size);

  cpu::Workspace& work = cpu::workspace();
  auto* const gathered = dense ? nullptr : work.tile.get<std::byte>(tile * n * size);
  float* const plane = work.plane.get<float>(n + slack);
  float* const row = work.row.get<float>(row_room(g, slack));
  float* const block_values = work.means.get<float>(g.blocks[2] + slack);
  auto* const code_room = work.codes.get<std::uint8_t>(n + 8 + 2 * slack);
  auto* const sign_room = work.signs.get<std::uint8_t>(n + 8 + 2 * slack);
  if ((!dense && gathered == nullptr) || plane == nullptr || row == nullptr ||
      block_values == nullptr || code_room == nullptr || sign_room == nullptr) {
    return false;
  }

  const std::int64_t sign_bytes = job.sections.codes - job.sections.signs;
  const std::int64_t code_bytes = job.sections.end - job.sections.codes;
  for (std::int64_t p = first; p < last; ++p) {
    const std::int64_t in_tile = (p - first) % tile;
    std::byte* const elements =
        dense ? static_cast<std::byte*>(target) + plane_offset(layout, p) * size
              : gathered + in_tile * n * size;
    float* const x = type == ElementType::float32 ? reinterpret_cast<float*>(elements) : plane;

    if (job.reads != Reads::sign) {
      AffineRange range;
      std::memcpy(&range, in + job.sections.ranges + p * 4, 4);
      const std::uint8_t* const codes =
          unpack_codes(bits, in + job.sections.codes, code_bytes, p * n, n, code_room);
      add_means(g, in + p * blocks * 2, range, codes, block_values, row, x);
    }
    if (job.parameters.with_sign) {
      const std::uint8_t* const signs =
          unpack_codes(1, in + job.sections.signs, sign_bytes, p * n, n, sign_room);
      apply_signs(signs, n, job.reads == Reads::sign, x);
    }
    if (x == plane) from_floats(type, plane, n, elements);
    if (!dense && (in_tile == tile - 1 || p == last - 1)) {
      cpu::scatter_planes(layout, size, gathered, p - in_tile, in_tile + 1, target);
    }
  }
  return true;
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
