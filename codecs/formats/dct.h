// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "codecs/affine.h"
#include "codecs/codec.h"
#include "codecs/float_formats.h"
#include "codecs/formats/sized_header.h"
#include "codecs/host_device.h"

/// Error-bounded block transform in place of AC-GC's AutoJPEG and AutoJPEGZ (Evans & Aamodt,
/// NeurIPS 2021, section 5): the discrete cosine transform of blocks of 8 x 8 elements, uniform
/// quantization, zeros left out. The paper picks JPEG's tables from an empirical relation of error
/// and quality that holds only approximately. Here every block is decoded while it is encoded, and
/// is held in finer steps, or raw, where an element would be off by the bound or more.
///
/// Geometry. Planes of two dimensions, or each depth slice of three, are cut into blocks of 8 x 8.
/// Blocks at the lower and right edge are padded with copies of the last row and column. Rows are
/// cut into stretches of 64 elements, which are read as 8 x 8; the last one is padded with copies
/// of its last element. A row is a plane of extent 1 x 1 x L; where planes have one element, all
/// channels of an outer index; where there is also one channel, the whole tensor. Blocks are
/// numbered along the width, then the height, then depth and planes. 32 of them are a chunk.
///
/// Arithmetic, all of it float32 in round-to-nearest-even and without fused multiply-add. Per
/// block x, with bound e:
///
///  1. A NaN, an infinity or a magnitude above kAffineMaxMagnitude: raw.
///  2. C = dct8 of every column, then of every row of the result.
///  3. For level 0 to 3: s = dct_step(level) * e, q = rint(C * (1 / s)). Failed unless all |q| <=
///     kDctMaxCode. Y = the inverse for C = q * s: dct8_inverse of every row, then of every column,
///     rounded to nearest even for 16-bit types (float16 clamped to its finite range). Failed
///     unless |x - Y| < e for all 64 elements. The first level that does not fail is the block's;
///     raw if there is none, or if raw is no larger.
///
/// Deterministic: no random draws, so rounding is unbiased only on average. The bound
/// |x - decoded| < e holds for every element as decoded in its own type. Every source is
/// representable. Signs are not kept, so `Reads::sign` is refused.
///
/// z = 2 q for q >= 0, else -2 q - 1. Position k = 8 v + u holds the coefficient of frequency v
/// along the width and u along the height.
///
/// Bytes, little-endian:
///  - header, 32 bytes: version (1), ElementType, 6 bytes of 0, blocks, elements and the size of
///    all bytes as int64;
///  - for each chunk its size as uint16;
///  - chunks. The parts of a chunk, in this order: a form byte for each block; for each block that
///    has one, its DC coefficient (q of position 0) as int16; for each block in the sparse form, a
///    byte whose bits say which of its eight rows v have non-zeros other than DC; for each such
///    row, block after block, a byte whose bits say which of its columns have; the blocks' codes or
///    elements, each block's from a whole byte on.
/// The form byte: 0x80: all q are 0 and nothing else is held. 0x1F: raw, the elements that exist,
/// by rows. Otherwise bits 5 and 6 are the level and bits 0 to 4 the width w: 0 for DC alone, 1 to
/// 16 for w bits a code, lowest bit first. Bit 7 clear: sparse, codes are z - 1 of the non-zero
/// coefficients but DC. Bit 7 set: dense, codes are z of positions 1 to 63. The smaller is used;
/// dense if equal, or if zero_value is off. Places of a chunk's parts follow by prefix sums over
/// its blocks.
namespace cinch::codecs {

inline constexpr std::uint8_t kDctVersion = 1;
inline constexpr std::int64_t kDctHeaderBytes = 32;

CINCH_HD constexpr SizedHeader<4> dct_header(ElementType type, std::int64_t blocks,
                                             std::int64_t elements, std::int64_t size) noexcept {
  return {version_word(kDctVersion, type), blocks, elements, size};
}
inline constexpr std::int64_t kDctEdge = 8;
inline constexpr std::int64_t kDctBlock = kDctEdge * kDctEdge;
inline constexpr std::int64_t kDctChunk = 32;  ///< blocks
inline constexpr int kDctLevels = 4;
inline constexpr float kDctMaxCode = 32767.0F;
inline constexpr std::uint8_t kDctZeroForm = 0x80;
inline constexpr std::uint8_t kDctRawForm = 0x1F;

/// Quantization step of a level, in error bounds. A block's errors are sums of 64, so steps above
/// the bound often hold it. The values were measured to give the fewest bits with few levels.
CINCH_HD inline float dct_step(int level) noexcept {
  if (level == 0) return 1.5F;
  if (level == 1) return 1.25F;
  return level == 2 ? 1.0F : 0.625F;
}

/// cos(n pi / 16) / 2, for n = 4 the square root of 1 / 8.
inline constexpr float kDctCos[8] = {0.5F,
                                     0.490392640202F,
                                     0.461939766256F,
                                     0.415734806151F,
                                     0.353553390593F,
                                     0.277785116510F,
                                     0.191341716183F,
                                     0.097545161008F};

/// Orthonormal DCT-II of x[0], x[stride], ..., x[7 * stride], in place.
CINCH_HD inline void dct8(float* x, int stride) noexcept {
  constexpr float k1 = kDctCos[1], k2 = kDctCos[2], k3 = kDctCos[3], k4 = kDctCos[4],
                  k5 = kDctCos[5], k6 = kDctCos[6], k7 = kDctCos[7];
  const float s0 = x[0] + x[7 * stride], d0 = x[0] - x[7 * stride];
  const float s1 = x[stride] + x[6 * stride], d1 = x[stride] - x[6 * stride];
  const float s2 = x[2 * stride] + x[5 * stride], d2 = x[2 * stride] - x[5 * stride];
  const float s3 = x[3 * stride] + x[4 * stride], d3 = x[3 * stride] - x[4 * stride];
  const float e0 = s0 + s3, e1 = s1 + s2, e2 = s0 - s3, e3 = s1 - s2;
  x[0] = (e0 + e1) * k4;
  x[4 * stride] = (e0 - e1) * k4;
  x[2 * stride] = e2 * k2 + e3 * k6;
  x[6 * stride] = e2 * k6 - e3 * k2;
  x[stride] = (d0 * k1 + d1 * k3) + (d2 * k5 + d3 * k7);
  x[3 * stride] = (d0 * k3 - d1 * k7) - (d2 * k1 + d3 * k5);
  x[5 * stride] = (d0 * k5 - d1 * k1) + (d2 * k7 + d3 * k3);
  x[7 * stride] = (d0 * k7 - d1 * k5) + (d2 * k3 - d3 * k1);
}

/// The inverse of dct8.
CINCH_HD inline void dct8_inverse(float* x, int stride) noexcept {
  constexpr float k1 = kDctCos[1], k2 = kDctCos[2], k3 = kDctCos[3], k4 = kDctCos[4],
                  k5 = kDctCos[5], k6 = kDctCos[6], k7 = kDctCos[7];
  const float c1 = x[stride], c3 = x[3 * stride], c5 = x[5 * stride], c7 = x[7 * stride];
  const float e0 = (x[0] + x[4 * stride]) * k4, e1 = (x[0] - x[4 * stride]) * k4;
  const float e2 = x[2 * stride] * k2 + x[6 * stride] * k6;
  const float e3 = x[2 * stride] * k6 - x[6 * stride] * k2;
  const float s0 = e0 + e2, s1 = e1 + e3, s2 = e1 - e3, s3 = e0 - e2;
  const float d0 = (c1 * k1 + c3 * k3) + (c5 * k5 + c7 * k7);
  const float d1 = (c1 * k3 - c3 * k7) - (c5 * k1 + c7 * k5);
  const float d2 = (c1 * k5 - c3 * k1) + (c5 * k7 + c7 * k3);
  const float d3 = (c1 * k7 - c3 * k5) + (c5 * k3 - c7 * k1);
  x[0] = s0 + d0;
  x[7 * stride] = s0 - d0;
  x[stride] = s1 + d1;
  x[6 * stride] = s1 - d1;
  x[2 * stride] = s2 + d2;
  x[5 * stride] = s2 - d2;
  x[3 * stride] = s3 + d3;
  x[4 * stride] = s3 - d3;
}

/// z of q, and the reverse.
CINCH_HD inline std::uint32_t dct_zigzag(std::int32_t q) noexcept {
  return static_cast<std::uint32_t>(q >= 0 ? 2 * q : -2 * q - 1);
}
CINCH_HD inline std::int32_t dct_unzigzag(std::uint32_t z) noexcept {
  const auto half = static_cast<std::int32_t>(z >> 1);
  return (z & 1U) != 0 ? -half - 1 : half;
}

/// Bits of the largest of some numbers below 2^24. @param all the OR of the numbers
CINCH_HD inline int dct_width(std::uint32_t all) noexcept {
  // The exponent of a float: exact, without a loop.
  return all == 0 ? 0 : static_cast<int>(float_bits(static_cast<float>(all)) >> 23) - 126;
}

/// How a block is held, chosen from facts about its coefficients.
struct DctForm {
  std::uint8_t form = kDctRawForm;
  std::int64_t bytes = 0;  ///< size without the form byte

  static CINCH_HD bool is_dense(std::uint8_t form) noexcept { return (form & 0x80U) != 0; }
  static CINCH_HD int level(std::uint8_t form) noexcept { return form >> 5 & 3; }
  static CINCH_HD int width(std::uint8_t form) noexcept { return form & 0x1F; }
  static CINCH_HD bool has_dc(std::uint8_t form) noexcept {
    return form != kDctRawForm && form != kDctZeroForm;
  }
  static CINCH_HD bool is_sparse(std::uint8_t form) noexcept {
    return form != kDctRawForm && !is_dense(form) && width(form) > 0;
  }
  /// Whether `form` is a value that encoders write.
  static CINCH_HD bool is_valid(std::uint8_t form) noexcept {
    return form == kDctRawForm || form == kDctZeroForm ||
           (width(form) <= 16 && (width(form) > 0 || !is_dense(form)));
  }
};

/// The form of a block at `level`. @param dc q of position 0 @param nonzero how many other q are
/// not 0 @param rows in how many of the eight rows these lie @param all_sparse, all_dense OR of the
/// z - 1 of these and OR of their z @param raw bytes that the block's elements take
CINCH_HD inline DctForm dct_form(int level, std::int32_t dc, int nonzero, int rows,
                                 std::uint32_t all_sparse, std::uint32_t all_dense, bool zero_value,
                                 std::int64_t raw) noexcept {
  const auto at_level = static_cast<std::uint8_t>(level << 5);
  DctForm best;
  if (nonzero == 0) {
    best.form = dc == 0 ? kDctZeroForm : at_level;
    best.bytes = dc == 0 ? 0 : 2;
  } else {
    const int dense = dct_width(all_dense);
    const int sparse = all_sparse == 0 ? 1 : dct_width(all_sparse);
    const std::int64_t dense_bytes = 2 + (63 * dense + 7) / 8;
    const std::int64_t sparse_bytes = 2 + 1 + rows + (nonzero * sparse + 7) / 8;
    const bool is_sparse = zero_value && sparse_bytes < dense_bytes;
    best.form = static_cast<std::uint8_t>(at_level | (is_sparse ? sparse : 0x80 | dense));
    best.bytes = is_sparse ? sparse_bytes : dense_bytes;
  }
  if (best.bytes >= raw) return {kDctRawForm, raw};
  return best;
}

/// How memory is cut into blocks.
class DctGeometry {
 public:
  explicit DctGeometry(const PlaneLayout& layout) noexcept;

  CINCH_HD std::int64_t blocks() const noexcept { return images_ * blocks_down_ * blocks_across_; }
  CINCH_HD std::int64_t chunks() const noexcept { return (blocks() + kDctChunk - 1) / kDctChunk; }
  /// Whether blocks are stretches of rows.
  CINCH_HD bool is_rows() const noexcept { return is_rows_; }

  /// Where a block begins, and how many of its rows and columns exist. A stretch has 1 row, and its
  /// elements are columns.
  struct Block {
    std::int64_t offset;  ///< of its first element in memory
    std::int64_t rows;
    std::int64_t columns;
    CINCH_HD std::int64_t elements() const noexcept { return rows * columns; }
  };
  CINCH_HD Block block(std::int64_t index) const noexcept {
    const std::int64_t image = index / blocks_across_ / blocks_down_;
    const std::int64_t row = index / blocks_across_ % blocks_down_ * kDctEdge;
    const std::int64_t column = index % blocks_across_ * edge_across_;
    const std::int64_t plane = image / depth_;
    const std::int64_t offset = plane / inner_ * outer_stride_ + plane % inner_ * inner_stride_ +
                                image % depth_ * depth_stride_ + row * row_stride_ +
                                column * column_stride_;
    const std::int64_t rows = height_ - row, columns = width_ - column;
    return {offset, rows < kDctEdge ? rows : kDctEdge,
            columns < edge_across_ ? columns : edge_across_};
  }

  /// Writes blocks [first, first + count), as `block` returns them, to `blocks`.
  void list(std::int64_t first, std::int64_t count, Block* blocks) const noexcept;

  /// Elements that exist in the blocks before `index`.
  CINCH_HD std::int64_t elements_before(std::int64_t index) const noexcept {
    if (blocks_across_ == 0) return 0;
    const std::int64_t image = index / blocks_across_ / blocks_down_;
    const std::int64_t row = index / blocks_across_ % blocks_down_ * kDctEdge;
    const std::int64_t column = index % blocks_across_ * edge_across_;
    const std::int64_t rows = height_ - row < kDctEdge ? height_ - row : kDctEdge;
    return image * height_ * width_ + row * width_ + rows * column;
  }

  /// Offset from the block's first element to that of position (i, j), or where (i, j) is padding,
  /// to the element that it copies.
  CINCH_HD std::int64_t offset_in(const Block& block, std::int64_t i,
                                  std::int64_t j) const noexcept {
    if (is_rows_) {
      const std::int64_t k = kDctEdge * i + j;
      return (k < block.columns ? k : block.columns - 1) * column_stride_;
    }
    return (i < block.rows ? i : block.rows - 1) * row_stride_ +
           (j < block.columns ? j : block.columns - 1) * column_stride_;
  }

  CINCH_HD std::int64_t row_stride() const noexcept { return row_stride_; }
  CINCH_HD std::int64_t column_stride() const noexcept { return column_stride_; }
  std::int64_t width() const noexcept { return width_; }
  /// Blocks of each plane.
  std::int64_t blocks_of_plane() const noexcept { return depth_ * blocks_down_ * blocks_across_; }

 private:
  bool is_rows_;
  std::int64_t images_;  ///< depth slices of planes, or rows
  std::int64_t depth_ = 1;
  std::int64_t height_ = 1;
  std::int64_t width_;
  std::int64_t inner_ = 1;  ///< planes or rows per outer index
  std::int64_t outer_stride_;
  std::int64_t inner_stride_ = 0;
  std::int64_t depth_stride_ = 0;
  std::int64_t row_stride_ = 0;
  std::int64_t column_stride_;
  std::int64_t blocks_down_ = 1;
  std::int64_t blocks_across_;
  std::int64_t edge_across_;  ///< kDctEdge; kDctBlock if is_rows_
};

struct DctParameters {
  float error_bound = 0.0F;  ///< finite and > 0
  bool zero_value = true;    ///< whether the sparse form may be used
};

/// What both engines share: everything but encode and decode.
class DctCodec : public Codec {
 public:
  explicit DctCodec(const DctParameters& parameters) : parameters_(parameters) {}

  std::string_view name() const noexcept override { return "dct"; }
  Reads restores() const noexcept override { return Reads::values; }
  bool accepts(const Description& what) const noexcept override;
  std::size_t encoded_bytes(const Description& what) const noexcept override;

 protected:
  const DctParameters& parameters() const noexcept { return parameters_; }
  /// Quantization step of a level.
  float step(int level) const noexcept { return dct_step(level) * parameters_.error_bound; }
  /// Byte offset of the first chunk.
  static std::int64_t payload(const DctGeometry& geometry) noexcept {
    return kDctHeaderBytes + 2 * geometry.chunks();
  }
  static void write_header(const Description& what, std::int64_t size, std::byte* out) noexcept;
  /// The encoded size as the header at `in` states it; -1 when decode can't serve `reads` from
  /// `in`. Otherwise `in` holds at least header and index.
  std::int64_t read_header(const Description& what, std::span<const std::byte> in,
                           Reads reads) const noexcept;

 private:
  DctParameters parameters_;
};

/// @pre parameters in range
std::shared_ptr<const Codec> make_dct_reference(const DctParameters& parameters);
std::shared_ptr<const Codec> make_dct_cpu(const DctParameters& parameters);

}  // namespace cinch::codecs
