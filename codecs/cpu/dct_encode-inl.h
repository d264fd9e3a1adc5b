// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_DCT_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_DCT_ENCODE_INL_H_
#undef CINCH_CODECS_CPU_DCT_ENCODE_INL_H_
#else
#define CINCH_CODECS_CPU_DCT_ENCODE_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/dct_job.h"
#include "codecs/cpu/dct_transform-inl.h"
#include "codecs/cpu/float_formats-inl.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/wide_bits-inl.h"
#include "codecs/cpu/workspace.h"
#include "codecs/dct.h"
#include "codecs/float_formats.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::int64_t kDctColumns = cpu::DctJob::kColumns;

/// Some blocks side by side, row by row.
struct DctTile {
  HWY_ALIGN float x[kDctEdge * kDctColumns];
  HWY_ALIGN float coefficients[kDctEdge * kDctColumns];
  HWY_ALIGN std::uint16_t codes[kDctEdge * kDctColumns];  ///< z
};

/// Copies row `from` of `count` elements to 8 floats at `to`, and its last element beyond.
HWY_INLINE void copy_row(ElementType type, const void* source, std::int64_t from,
                         std::int64_t count, float* HWY_RESTRICT to) {
  const auto size = static_cast<std::int64_t>(element_size(type));
  to_floats(type, static_cast<const std::byte*>(source) + from * size, count, to);
  for (std::int64_t j = count; j < kDctEdge; ++j) to[j] = to[count - 1];
}

/// Blocks [first, first + count) to columns [0, 8 * count) of x.
HWY_INLINE void gather_blocks(const DctGeometry& geometry, ElementType type, const void* source,
                              std::int64_t first, std::int64_t count, float* HWY_RESTRICT x) {
  const auto size = static_cast<std::int64_t>(element_size(type));
  for (std::int64_t b = 0; b < count;) {
    const DctGeometry::Block block = geometry.block(first + b);
    float* const to = x + b * kDctEdge;
    if (geometry.column_stride() != 1) {
      for (std::int64_t i = 0; i < kDctEdge; ++i) {
        for (std::int64_t j = 0; j < kDctEdge; ++j) {
          const std::int64_t from = block.offset + geometry.offset_in(block, i, j);
          to_floats(type, static_cast<const std::byte*>(source) + from * size, 1,
                    to + i * kDctColumns + j);
        }
      }
      ++b;
      continue;
    }
    if (geometry.is_rows()) {
      for (std::int64_t i = 0; i < kDctEdge; ++i) {
        const std::int64_t from = std::min(i * kDctEdge, block.columns - 1);
        copy_row(type, source, block.offset + from, std::min(kDctEdge, block.columns - from),
                 to + i * kDctColumns);
      }
      ++b;
      continue;
    }
    // Whole blocks that follow each other along the width go together.
    std::int64_t run = 1;
    if (block.columns == kDctEdge) {
      const std::int64_t across = (first + b) % geometry.blocks_across();
      const std::int64_t whole = geometry.width() / kDctEdge - across;
      run = std::min(whole, count - b);
    }
    for (std::int64_t i = 0; i < kDctEdge; ++i) {
      const std::int64_t from = block.offset + std::min(i, block.rows - 1) * geometry.row_stride();
      if (block.columns == kDctEdge) {
        to_floats(type, static_cast<const std::byte*>(source) + from * size, run * kDctEdge,
                  to + i * kDctColumns);
      } else {
        copy_row(type, source, from, block.columns, to + i * kDctColumns);
      }
    }
    b += run;
  }
}

/// Codes of the blocks in columns [0, n) of the tile's x in steps of `step`.
/// @return one bit a block: every element finite, every code small enough, and all within the bound
HWY_INLINE std::uint64_t quantize_blocks(DctTile& tile, std::int64_t n, float step, float bound,
                                         ElementType type) {
  const DctTag d;
  const hn::RebindToSigned<DctTag> di;
  const hn::RebindToUnsigned<DctTag> du;
  const hn::Rebind<std::uint16_t, DctTag> d16;
  const auto scale = hn::Set(d, 1.0F / step);
  const auto steps = hn::Set(d, step);
  // Adding 1.5 * 2^23 rounds to an integer, which the low bits of the sum then are.
  const auto magic = hn::Set(d, 0x1.8p23F);
  const auto limit = hn::Set(d, kDctMaxCode + 0.5F);
  const auto largest = hn::Set(d, kAffineMaxMagnitude);
  std::uint64_t bad = 0;
  const auto note = [&](std::int64_t c, auto good) {
    std::uint8_t bits[8] = {};
    hn::StoreMaskBits(d, hn::Not(good), bits);
    std::uint64_t lanes;
    std::memcpy(&lanes, bits, 8);
    if (lanes == 0) return;
    // Eight lanes a block.
    if ((lanes & 0xFF) != 0) bad |= std::uint64_t{1} << (c / kDctEdge);
    if ((lanes & 0xFF00) != 0) bad |= std::uint64_t{2} << (c / kDctEdge);
  };
  on_turned(
      tile.x, n, [&](DctRows& rows) { dct_forward(rows); },
      [&](std::int64_t c, DctRows& rows) {
        dct_forward(rows);
        auto good = hn::MaskFromVec(hn::Set(d, 0.0F));
        good = hn::Not(good);
        rows.for_each([&](int v, DctVec& coefficient) {
          const auto q = hn::Mul(coefficient, scale);
          good = hn::And(good, hn::Lt(hn::Abs(q), limit));
          const auto sum = hn::Add(q, magic);
          const auto code = hn::Sub(hn::BitCast(di, sum), hn::BitCast(di, magic));
          const auto z = hn::Xor(hn::ShiftLeft<1>(code), hn::ShiftRight<31>(code));
          hn::StoreU(hn::TruncateTo(d16, hn::BitCast(du, z)), d16,
                     tile.codes + v * kDctColumns + c);
          hn::StoreU(hn::Mul(hn::Sub(sum, magic), steps), d,
                     tile.coefficients + v * kDctColumns + c);
        });
        note(c, good);
      });
  const auto bounds = hn::Set(d, bound);
  dct_reconstruct(tile.coefficients, n, type, [&](std::int64_t c, DctRows& rows) {
    auto good = hn::Not(hn::MaskFromVec(hn::Set(d, 0.0F)));
    rows.for_each([&](int i, const DctVec& y) {
      const auto x = hn::LoadU(d, tile.x + i * kDctColumns + c);
      good = hn::And(good, hn::Lt(hn::Abs(hn::Sub(x, y)), bounds));
      good = hn::And(good, hn::Le(hn::Abs(x), largest));
    });
    note(c, good);
  });
  return ~bad;
}

/// What becomes of a chunk, part by part.
struct DctParts {
  std::uint8_t forms[kDctChunk];
  std::int16_t dcs[kDctChunk];
  std::uint8_t rows[kDctChunk];
  std::uint8_t columns[kDctChunk * kDctEdge];
  std::int64_t dc_count = 0, row_count = 0, column_count = 0, code_bytes = 0;
  std::byte codes[kDctChunk * kDctBlock * sizeof(float)];

  /// Writes all parts of a chunk of `count` blocks. @return their size
  std::int64_t write(std::int64_t count, std::byte* out) const {
    std::int64_t at = 0;
    const auto put = [&](const void* part, std::int64_t size) {
      std::memcpy(out + at, part, static_cast<std::size_t>(size));
      at += size;
    };
    put(forms, count);
    put(dcs, 2 * dc_count);
    put(rows, row_count);
    put(columns, column_count);
    put(codes, code_bytes);
    return at;
  }
};

/// Adds block b of the chunk, whose codes are in the columns from `z` on.
/// @param raw bytes that its elements take @return false when raw is no larger
HWY_INLINE bool add_block(std::int64_t b, const std::uint16_t* HWY_RESTRICT z, int level,
                          bool zero_value, std::int64_t raw, DctParts& parts) {
  const hn::FixedTag<std::uint16_t, 8> d;
  const auto one = hn::Set(d, 1);
  HWY_ALIGN std::uint16_t dense[kDctBlock + HWY_MAX_BYTES];
  HWY_ALIGN std::uint16_t sparse[kDctBlock + HWY_MAX_BYTES];
  std::uint8_t columns[kDctEdge];
  unsigned rows = 0;
  std::int64_t row_count = 0, nonzero = 0;
  auto all_dense = hn::Zero(d), all_sparse = hn::Zero(d);
  const std::int32_t dc = dct_unzigzag(z[0]);
  for (int v = 0; v < kDctEdge; ++v) {
    auto row = hn::LoadU(d, z + v * kDctColumns);
    if (v == 0) row = hn::IfThenZeroElse(hn::FirstN(d, 1), row);
    hn::StoreU(row, d, dense + v * kDctEdge);
    const auto mask = hn::Ne(row, hn::Zero(d));
    const auto less = hn::IfThenElseZero(mask, hn::Sub(row, one));
    all_dense = hn::Or(all_dense, row);
    all_sparse = hn::Or(all_sparse, less);
    std::uint8_t bits[8];
    hn::StoreMaskBits(d, mask, bits);
    columns[row_count] = bits[0];
    rows |= static_cast<unsigned>(bits[0] != 0) << v;
    row_count += bits[0] != 0;
    hn::StoreU(hn::Compress(less, mask), d, sparse + nonzero);
    nonzero += std::popcount(bits[0]);
  }
  const auto or_lanes = [&](auto all) {
    HWY_ALIGN std::uint16_t lanes[8];
    hn::Store(all, d, lanes);
    std::uint32_t joined = 0;
    for (const std::uint16_t lane : lanes) joined |= lane;
    return joined;
  };
  const DctForm form = dct_form(level, dc, static_cast<int>(nonzero), static_cast<int>(row_count),
                                or_lanes(all_sparse), or_lanes(all_dense), zero_value, raw);
  if (form.form == kDctRawForm) return false;
  parts.forms[b] = form.form;
  if (form.form == kDctZeroForm) return true;
  parts.dcs[parts.dc_count++] = static_cast<std::int16_t>(dc);
  const int width = DctForm::width(form.form);
  if (width == 0) return true;
  std::byte* const to = parts.codes + parts.code_bytes;
  if (DctForm::is_dense(form.form)) {
    dense[kDctBlock] = 0;
    pack_wide(width, dense + 1, kDctBlock - 1, to);
    parts.code_bytes += ((kDctBlock - 1) * width + 7) / 8;
    return true;
  }
  parts.rows[parts.row_count++] = static_cast<std::uint8_t>(rows);
  std::memcpy(parts.columns + parts.column_count, columns, static_cast<std::size_t>(row_count));
  parts.column_count += row_count;
  hn::StoreU(hn::Zero(d), d, sparse + nonzero);
  pack_wide(width, sparse, nonzero, to);
  parts.code_bytes += (nonzero * width + 7) / 8;
  return true;
}

/// Adds block b raw.
HWY_INLINE void add_raw(const DctGeometry& geometry, const DctGeometry::Block& block,
                        const void* source, std::int64_t size, std::int64_t b, DctParts& parts) {
  parts.forms[b] = kDctRawForm;
  const auto* const from = static_cast<const std::byte*>(source);
  for (std::int64_t i = 0; i < block.rows; ++i) {
    for (std::int64_t j = 0; j < block.columns; ++j) {
      const std::int64_t offset =
          block.offset + i * geometry.row_stride() + j * geometry.column_stride();
      std::memcpy(parts.codes + parts.code_bytes, from + offset * size,
                  static_cast<std::size_t>(size));
      parts.code_bytes += size;
    }
  }
}

/// Encodes blocks [first, first + count) of `geometry`, a chunk. @return its size
HWY_INLINE std::int64_t encode_chunk(const cpu::DctJob& job, const DctGeometry& geometry,
                                     const void* source, std::int64_t first, std::int64_t count,
                                     DctTile& tile, DctTile& again, DctParts& parts,
                                     std::byte* out) {
  const ElementType type = job.what.type;
  const auto size = static_cast<std::int64_t>(element_size(type));
  const float bound = job.parameters.error_bound;
  const auto up_to_16 = [](std::int64_t blocks) { return (blocks * kDctEdge + 15) / 16 * 16; };
  gather_blocks(geometry, type, source, first, count, tile.x);
  const std::uint64_t all = (std::uint64_t{1} << count) - 1;
  std::uint64_t held = quantize_blocks(tile, up_to_16(count), dct_step(0) * bound, bound, type);
  std::uint8_t levels[kDctChunk] = {};
  // Those that are off by more go through finer steps, side by side again.
  for (int level = 1; level < kDctLevels && (all & ~held) != 0; ++level) {
    std::int64_t blocks[kDctChunk];
    std::int64_t some = 0;
    for (std::uint64_t rest = all & ~held; rest != 0; rest &= rest - 1) {
      blocks[some++] = std::countr_zero(rest);
    }
    const auto copy_block = [](const auto* from, auto* to) {
      for (std::int64_t i = 0; i < kDctEdge; ++i) {
        std::memcpy(to + i * kDctColumns, from + i * kDctColumns, kDctEdge * sizeof *to);
      }
    };
    for (std::int64_t k = 0; k < some; ++k) {
      copy_block(tile.x + blocks[k] * kDctEdge, again.x + k * kDctEdge);
    }
    const std::uint64_t now =
        quantize_blocks(again, up_to_16(some), dct_step(level) * bound, bound, type);
    for (std::int64_t k = 0; k < some; ++k) {
      if ((now >> k & 1) == 0) continue;
      held |= std::uint64_t{1} << blocks[k];
      levels[blocks[k]] = static_cast<std::uint8_t>(level);
      copy_block(again.codes + k * kDctEdge, tile.codes + blocks[k] * kDctEdge);
    }
  }

  parts.dc_count = parts.row_count = parts.column_count = parts.code_bytes = 0;
  for (std::int64_t b = 0; b < count; ++b) {
    const DctGeometry::Block block = geometry.block(first + b);
    const bool fits = (held >> b & 1) != 0 &&
                      add_block(b, tile.codes + b * kDctEdge, levels[b], job.parameters.zero_value,
                                block.elements() * size, parts);
    if (!fits) add_raw(geometry, block, source, size, b, parts);
  }
  return parts.write(count, out);
}

/// Encodes chunks [first, last), one tightly after the other from where the first one would lie if
/// those before it had their largest size. `sizes` and `begins` get one entry a chunk.
/// @pre first is a multiple of the job's grain @return false when memory ran out
bool dct_encode(const cpu::DctJob& job, const void* source, std::int64_t first, std::int64_t last,
                std::byte* sizes, std::int64_t* begins, std::byte* payload) {
  const auto size = static_cast<std::int64_t>(element_size(job.what.type));
  cpu::Workspace& work = cpu::workspace();
  auto* const tiles = work.plane.get<DctTile>(2);
  auto* const parts = work.codes.get<DctParts>(1);
  const std::int64_t tile_elements = kDctChunk * job.what.layout.plane_size();
  auto* const planes =
      job.gathers ? work.tile.get<std::byte>(tile_elements * size) : work.tile.get<std::byte>(0);
  if (tiles == nullptr || parts == nullptr || planes == nullptr) return false;

  const DctGeometry tile_geometry(job.tile_layout);
  const std::int64_t in_tile = job.geometry.blocks_of_plane();  // chunks
  std::int64_t at = job.room_before(first);
  for (std::int64_t chunk = first; chunk < last; ++chunk) {
    const std::int64_t begin = chunk * kDctChunk;
    const std::int64_t count = std::min(kDctChunk, job.geometry.blocks() - begin);
    std::int64_t bytes = 0;
    if (job.gathers) {
      if (chunk % in_tile == 0) {
        const std::int64_t plane = chunk / in_tile * kDctChunk;
        cpu::gather_planes(job.what.layout, static_cast<std::size_t>(size), source, plane,
                           std::min(kDctChunk, job.what.layout.planes() - plane), planes);
      }
      bytes = encode_chunk(job, tile_geometry, planes, chunk % in_tile * kDctChunk, count, tiles[0],
                           tiles[1], *parts, payload + at);
    } else {
      bytes = encode_chunk(job, job.geometry, source, begin, count, tiles[0], tiles[1], *parts,
                           payload + at);
    }
    const auto stored = static_cast<std::uint16_t>(bytes);
    std::memcpy(sizes + 2 * chunk, &stored, 2);
    begins[chunk] = at;
    at += bytes;
  }
  return true;
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
