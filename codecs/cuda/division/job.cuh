// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "codecs/cuda/blocks/ordered.cuh"
#include "codecs/cuda/blocks/side_by_side.cuh"
#include "codecs/cuda/codec.h"
#include "codecs/cuda/elements/elements.cuh"
#include "codecs/cuda/elements/fast_divide.h"
#include "codecs/cuda/elements/quantize.cuh"
#include "codecs/formats/division/division.h"
#include "codecs/layout.h"

namespace cinch::codecs::cuda {

/// Planes up to this size are counted in 32 bits within a block's reach.
inline constexpr std::int64_t kMaxPlane = std::int64_t{1} << 29;

/// Arguments of DIVISION's kernels. Coordinates within a plane are 32-bit.
struct DivisionJob {
  // Where the elements lie.
  PlaneLayout layout;
  bool contiguous;
  bool vectors;       ///< 16-byte accesses to the elements are allowed
  bool side_by_side;  ///< planes' elements lie side by side, pixel after pixel, and a vector
                      ///< of 16 bytes is one pixel of as many planes
  std::int64_t
      pixel_stride;     ///< from each pixel of a plane to the next; 0 when they aren't equidistant
  bool few;             ///< logical indices are below 2^31
  FastDivide by_inner;  ///< if few
  // Geometry of a plane.
  std::int32_t size;
  FastDivide by_size, by_height, by_width;
  std::int32_t extent[3];
  std::int32_t block[3];
  std::int32_t blocks[3];
  std::int32_t block_count;
  FastDivide by_block_count, by_blocks_height, by_blocks_width;
  // Coordinate i is covered by block i * cover_factor / by_cover.
  FastDivide by_cover[3];
  std::int32_t cover_factor[3];
  bool covers_pools;  ///< DivisionGeometry::covers_pools
  // The encoded data.
  int bits;
  bool with_sign;
  DivisionSections sections;
  RoundKeys keys;

  DivisionJob(const DivisionParameters& parameters, const Description& what, const void* elements,
              RandomKey random_key) noexcept
      : DivisionJob(parameters, DivisionGeometry(parameters, what.layout.extent), what, elements,
                    random_key) {}

 private:
  DivisionJob(const DivisionParameters& parameters, const DivisionGeometry& g,
              const Description& what, const void* elements, RandomKey random_key) noexcept
      : layout(what.layout),
        contiguous(what.layout.is_contiguous()),
        vectors(contiguous && is_vector_aligned(elements)),
        pixel_stride(pixel_stride_of(what.layout)),
        few(what.layout.elements() < std::int64_t{1} << 31),
        by_inner(few ? std::max<std::int64_t>(what.layout.inner, 1) : 1),
        size(static_cast<std::int32_t>(what.layout.plane_size())),
        by_size(size),
        by_height(g.extent[1]),
        by_width(g.extent[2]),
        block_count(static_cast<std::int32_t>(g.block_count())),
        by_block_count(block_count),
        by_blocks_height(g.blocks[1]),
        by_blocks_width(g.blocks[2]),
        covers_pools(g.covers_pools()),
        bits(parameters.bits),
        with_sign(parameters.with_sign),
        sections(parameters, g, what.layout),
        keys(random_key) {
    const auto vector = static_cast<std::int64_t>(16 / element_size(what.type));
    side_by_side = !contiguous && layout.inner_stride == 1 && pixel_stride > 0 &&
                   layout.inner % vector == 0 && pixel_stride % vector == 0 &&
                   layout.outer_stride % vector == 0 && is_vector_aligned(elements);
    for (int axis = 0; axis < 3; ++axis) {
      extent[axis] = static_cast<std::int32_t>(g.extent[axis]);
      block[axis] = static_cast<std::int32_t>(g.block[axis]);
      blocks[axis] = static_cast<std::int32_t>(g.blocks[axis]);
      by_cover[axis] = FastDivide(covers_pools ? g.block[axis] : g.extent[axis]);
      cover_factor[axis] = covers_pools ? 1 : blocks[axis];
    }
  }

 public:
  /// How many elements from a multiple of this number on share a row and a covering block.
  int run() const noexcept {
    if (!covers_pools) return 1;
    for (const int run : {8, 4, 2}) {
      if (extent[2] % run == 0 && (blocks[2] == 1 || block[2] % run == 0)) return run;
    }
    return 1;
  }

  CINCH_HD std::int64_t plane_begin(std::int64_t plane) const noexcept {
    if (few) {
      auto inner = static_cast<std::uint32_t>(plane);
      const std::int64_t outer = by_inner.split(inner);
      return outer * layout.outer_stride + inner * layout.inner_stride;
    }
    return plane_offset(layout, plane);
  }

  /// The plane of logical index `k`; what is left in `k` is the place in that plane.
  CINCH_HD std::int64_t split(std::int64_t& k) const noexcept {
    if (few) {
      auto within = static_cast<std::uint32_t>(k);
      const std::int64_t plane = by_size.split(within);
      k = within;
      return plane;
    }
    const std::int64_t plane = k / size;
    k %= size;
    return plane;
  }

  /// Memory offset of the plane's element at logical index `e`, from the plane's first element.
  CINCH_HD std::int64_t offset_in_plane(std::uint32_t e) const noexcept {
    std::uint32_t w = e;
    std::uint32_t h = by_width.split(w);
    const std::uint32_t d = by_height.split(h);
    return d * layout.stride[0] + h * layout.stride[1] + w * layout.stride[2];
  }

  CINCH_HD std::uint32_t cover(int axis, std::uint32_t i) const noexcept {
    return by_cover[axis].quotient(i * static_cast<std::uint32_t>(cover_factor[axis]));
  }

  /// The block that covers element `e` of a plane.
  CINCH_HD std::uint32_t covering_block(std::uint32_t e) const noexcept {
    std::uint32_t w = e;
    std::uint32_t h = by_width.split(w);
    const std::uint32_t d = by_height.split(h);
    return (cover(0, d) * static_cast<std::uint32_t>(blocks[1]) + cover(1, h)) *
               static_cast<std::uint32_t>(blocks[2]) +
           cover(2, w);
  }
};

/// The part of a plane whose elements a block averages.
struct PoolWindow {
  std::int32_t d0, d1, h0, h1, w0, w1;

  CINCH_HD PoolWindow(const DivisionJob& job, std::uint32_t block) noexcept {
    std::uint32_t bw = block;
    std::uint32_t bh = job.by_blocks_width.split(bw);
    const std::uint32_t bd = job.by_blocks_height.split(bh);
    begin_end(job, 0, bd, d0, d1);
    begin_end(job, 1, bh, h0, h1);
    begin_end(job, 2, bw, w0, w1);
  }

  CINCH_HD float count() const noexcept {
    return static_cast<float>(std::int64_t{d1 - d0} * (h1 - h0) * (w1 - w0));
  }

 private:
  CINCH_HD static void begin_end(const DivisionJob& job, int axis, std::uint32_t b,
                                 std::int32_t& begin, std::int32_t& end) noexcept {
    begin = static_cast<std::int32_t>(b) * job.block[axis];
    end = job.extent[axis] - begin < job.block[axis] ? job.extent[axis] : begin + job.block[axis];
  }
};

/// Sums column `w` of a window, top to bottom; +0 past the window's end. x(d, h, w) loads elements.
template <typename Load>
__device__ __forceinline__ float column_sum(const PoolWindow& window, std::int32_t w,
                                            const Load& x) {
  if (w >= window.w1) return 0.0F;
  float sum = x(window.d0, window.h0, w);
  for (std::int32_t h = window.h0 + 1; h < window.h1; ++h) sum += x(window.d0, h, w);
  for (std::int32_t d = window.d0 + 1; d < window.d1; ++d) {
    for (std::int32_t h = window.h0; h < window.h1; ++h) sum += x(d, h, w);
  }
  return sum;
}

/// Sums over `lanes` neighbouring lanes (a power of two) in adjacent pairs. All of them get the
/// same sum: a lane and its partner add the same two numbers in opposite order.
__device__ __forceinline__ float pair_sum(float x, unsigned lanes) {
  for (unsigned step = 1; step < lanes; step *= 2) {
    x += __shfl_xor_sync(kAllLanes, x, static_cast<int>(step));
  }
  return x;
}

/// Running bounds of a plane, as integers made by `ordered`.
struct PlaneBounds {
  std::uint32_t min, max;
  std::uint32_t bad;
};

/// Stores a plane's range. It lies at an even address.
__device__ __forceinline__ void store_range(const DivisionJob& job, std::byte* out,
                                            std::int64_t plane, AffineRange range) {
  auto* const at = reinterpret_cast<std::uint16_t*>(out + job.sections.ranges + plane * 4);
  at[0] = range.lo;
  at[1] = range.step;
}

__device__ __forceinline__ void store_range(const DivisionJob& job, std::byte* out,
                                            std::int64_t plane, FloatRange range) {
  store_range(job, out, plane,
              AffineRange{static_cast<std::uint16_t>(float_bits(range.lo) >> 16),
                          static_cast<std::uint16_t>(float_bits(range.step) >> 16)});
}

__device__ __forceinline__ AffineRange load_range(const DivisionJob& job, const std::byte* in,
                                                  std::int64_t plane) {
  const auto* const at =
      reinterpret_cast<const std::uint16_t*>(in + job.sections.ranges + plane * 4);
  return {at[0], at[1]};
}

}  // namespace cinch::codecs::cuda
