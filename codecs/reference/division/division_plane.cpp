// SPDX-License-Identifier: Apache-2.0
#include "codecs/reference/division/division_plane.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "codecs/float_formats.h"

namespace cinch::codecs::reference {
namespace {

/// Logical index of element (d, h, w) within its plane.
std::int64_t at(const DivisionGeometry& g, std::int64_t d, std::int64_t h, std::int64_t w) {
  return (d * g.extent[1] + h) * g.extent[2] + w;
}

/// Mean of block (bd, bh, bw).
float block_mean(std::span<const float> x, const DivisionGeometry& g, std::int64_t bd,
                 std::int64_t bh, std::int64_t bw) {
  std::vector<float> column(std::bit_ceil(static_cast<std::uint64_t>(g.block[2])), 0.0F);
  const std::int64_t d0 = g.pool_begin(0, bd), d1 = g.pool_end(0, bd);
  const std::int64_t h0 = g.pool_begin(1, bh), h1 = g.pool_end(1, bh);
  const std::int64_t w0 = g.pool_begin(2, bw), w1 = g.pool_end(2, bw);
  for (std::int64_t w = w0; w < w1; ++w) {
    float sum = x[at(g, d0, h0, w)];
    for (std::int64_t d = d0; d < d1; ++d) {
      for (std::int64_t h = h0; h < h1; ++h) {
        if (d != d0 || h != h0) sum += x[at(g, d, h, w)];
      }
    }
    column[w - w0] = sum;
  }
  for (std::size_t count = column.size() / 2; count > 0; count /= 2) {
    for (std::size_t i = 0; i < count; ++i) column[i] = column[2 * i] + column[2 * i + 1];
  }
  return column[0] / static_cast<float>((d1 - d0) * (h1 - h0) * (w1 - w0));
}

}  // namespace

std::vector<float> block_means(std::span<const float> x, const DivisionGeometry& g) {
  std::vector<float> means;
  for (std::int64_t bd = 0; bd < g.blocks[0]; ++bd) {
    for (std::int64_t bh = 0; bh < g.blocks[1]; ++bh) {
      for (std::int64_t bw = 0; bw < g.blocks[2]; ++bw) {
        means.push_back(block_mean(x, g, bd, bh, bw));
      }
    }
  }
  return means;
}

std::vector<std::int64_t> covering_blocks(const DivisionGeometry& g) {
  std::vector<std::int64_t> covering;
  for (std::int64_t d = 0; d < g.extent[0]; ++d) {
    for (std::int64_t h = 0; h < g.extent[1]; ++h) {
      for (std::int64_t w = 0; w < g.extent[2]; ++w) {
        const std::int64_t row = g.covering(0, d) * g.blocks[1] + g.covering(1, h);
        covering.push_back(row * g.blocks[2] + g.covering(2, w));
      }
    }
  }
  return covering;
}

DivisionPlane encode_plane(std::span<const float> x, const DivisionGeometry& g, int bits,
                           std::span<const std::uint32_t> draws) {
  DivisionPlane plane;
  for (const float mean : block_means(x, g)) plane.means.push_back(bf16_nearest(mean));

  const std::vector<std::int64_t> covering = covering_blocks(g);
  std::vector<float> r(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    r[i] = x[i] - float_of_bf16(plane.means[covering[i]]);
  }
  const auto [min, max] = std::minmax_element(r.begin(), r.end());
  plane.range = affine_range(*min, *max, bits);

  plane.codes.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    plane.codes[i] = static_cast<std::uint8_t>(affine_code(
        r[i], float_of_bf16(plane.range.lo), affine_scale(plane.range), bits, draws[i]));
  }
  return plane;
}

DivisionPlane poisoned_plane(std::int64_t blocks, std::int64_t size) {
  return {std::vector<std::uint16_t>(blocks, 0), poisoned_range(),
          std::vector<std::uint8_t>(size, 0)};
}

std::vector<float> decode_plane(const DivisionPlane& plane, const DivisionGeometry& g) {
  const float lo = float_of_bf16(plane.range.lo);
  const float step = float_of_bf16(plane.range.step);
  const std::vector<std::int64_t> covering = covering_blocks(g);
  std::vector<float> x(plane.codes.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = affine_value(float_of_bf16(plane.means[covering[i]]) + lo, step, plane.codes[i]);
  }
  return x;
}

}  // namespace cinch::codecs::reference
