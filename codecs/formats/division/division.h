// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "codecs/affine.h"
#include "codecs/codec.h"
#include "codecs/host_device.h"

/// DIVISION (Wang et al., ICML 2023): a plane's block means in bfloat16, and each element's
/// residual in a few stochastically rounded bits (section 4.1, Algorithm 1, Eqs. 9 and 10).
///
/// Arithmetic, all of it float32 in round-to-nearest-even and without fused multiply-add. Per
/// plane:
///
///  1. Each block's elements are summed per column, front to back, then top to bottom. The column
///     sums, padded with +0 to bit_ceil(B') columns, are added in adjacent pairs until one is left.
///     The block's mean L is that sum over the block's number of elements, rounded to nearest.
///  2. r = x - L, where L is the rounded mean of the block that covers x.
///  3. lo, step = affine_range(min r, max r, Q).
///  4. code = affine_code(r, lo, scale, Q, draw16(key, logical index)).
///
/// Decoded: (L + lo) + step * code, rounded to nearest even for 16-bit types (float16 clamped to
/// its finite range). Given L, the expectation of a decoded element is x to within 2^-16 steps.
/// A plane of equal elements decodes exactly if bfloat16 holds their value and no block has more
/// than 65536 elements. Any plane with max r = lo decodes to L + lo, whatever the draws.
///
/// A plane with a NaN, an infinity or a magnitude above kAffineMaxMagnitude is not representable
/// and is poisoned: its means and codes are 0, its range is poisoned_range(). All other planes
/// decode to finite numbers.
namespace cinch::codecs {

struct DivisionParameters {
  int bits = 2;            ///< Q, 1 to 8
  std::int64_t block = 8;  ///< B, >= 1
  bool edge_ceil = true;   ///< see DivisionGeometry
  bool with_sign = false;  ///< also hold x > 0; elements where it is false decode to exactly 0
};

/// How a plane is cut into blocks of B' = min(B, extent) per axis, and which block covers which
/// element, that is, whose mean is subtracted from it.
///
/// edge_ceil: ceil(extent / B') blocks, the last one perhaps partial; block i / B' covers
/// coordinate i. Otherwise, as in the paper's code, floor(extent / B') whole blocks, spread by
/// nearest upsampling: block i * blocks / extent covers coordinate i.
struct DivisionGeometry {
  std::array<std::int64_t, 3> extent;
  std::array<std::int64_t, 3> block;
  std::array<std::int64_t, 3> blocks;
  bool edge_ceil;

  DivisionGeometry(const DivisionParameters& parameters,
                   const std::array<std::int64_t, 3>& plane_extent) noexcept;

  std::int64_t block_count() const noexcept { return blocks[0] * blocks[1] * blocks[2]; }

  /// Whether every block covers exactly the elements that it averages.
  bool covers_pools() const noexcept {
    bool whole = true;
    for (int axis = 0; axis < 3; ++axis) whole = whole && extent[axis] % block[axis] == 0;
    return edge_ceil || whole;
  }
  /// The block along `axis` that covers coordinate `i`.
  CINCH_HD std::int64_t covering(int axis, std::int64_t i) const noexcept {
    return edge_ceil ? i / block[axis] : i * blocks[axis] / extent[axis];
  }
  /// First coordinate that block `b` covers along `axis`; the extent for b = blocks.
  CINCH_HD std::int64_t cover_begin(int axis, std::int64_t b) const noexcept {
    if (edge_ceil) return std::min(b * block[axis], extent[axis]);
    return (b * extent[axis] + blocks[axis] - 1) / blocks[axis];
  }
  /// First coordinate that block `b` averages along `axis`, and one past the last.
  CINCH_HD std::int64_t pool_begin(int axis, std::int64_t b) const noexcept {
    return b * block[axis];
  }
  CINCH_HD std::int64_t pool_end(int axis, std::int64_t b) const noexcept {
    return std::min((b + 1) * block[axis], extent[axis]);
  }
};

/// Byte offsets of the sections of the encoded data.
struct DivisionSections {
  std::int64_t ranges;
  std::int64_t signs;
  std::int64_t codes;
  std::int64_t end;

  DivisionSections(const DivisionParameters& parameters, const DivisionGeometry& geometry,
                   const PlaneLayout& layout) noexcept;
};

/// What both engines share: everything but encode and decode.
class DivisionCodec : public Codec {
 public:
  explicit DivisionCodec(const DivisionParameters& parameters) : parameters_(parameters) {}

  std::string_view name() const noexcept override { return "division"; }
  Reads restores() const noexcept override { return Reads::values; }
  bool accepts(const Description& what) const noexcept override;
  std::size_t encoded_bytes(const Description& what) const noexcept override;

 protected:
  const DivisionParameters& parameters() const noexcept { return parameters_; }
  /// Whether decode can serve `reads` from `size` bytes; signs only if with_sign.
  bool can_decode(const Description& what, std::size_t size, Reads reads) const noexcept;

 private:
  DivisionParameters parameters_;
};

/// @pre parameters in range
std::shared_ptr<const Codec> make_division_reference(const DivisionParameters& parameters);
std::shared_ptr<const Codec> make_division_cpu(const DivisionParameters& parameters);

}  // namespace cinch::codecs
