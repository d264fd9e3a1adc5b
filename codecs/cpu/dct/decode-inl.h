// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_DCT_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_DCT_DECODE_INL_H_
#undef CINCH_CODECS_CPU_DCT_DECODE_INL_H_
#else
#define CINCH_CODECS_CPU_DCT_DECODE_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/dct/job.h"
#include "codecs/cpu/dct/tile-inl.h"
#include "codecs/cpu/dct/transform-inl.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/vectors/wide_codes-inl.h"
#include "codecs/cpu/workspace.h"
#include "codecs/cpu/zero_value_tables.h"
#include "codecs/formats/dct.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// What is left to read of a chunk's parts.
struct DctReader {
  const std::uint8_t* forms;
  const std::byte* dcs;
  const std::byte* rows;
  const std::byte* columns;
  const std::byte* codes;
  std::int64_t code_bytes;

  /// Finds the parts of a chunk of `count` blocks in `size` bytes. @return false when parts are
  /// missing or a form byte is invalid
  bool find(const std::byte* in, std::int64_t size, std::int64_t count) {
    if (size < count) return false;
    forms = reinterpret_cast<const std::uint8_t*>(in);
    std::int64_t dc_count = 0, row_count = 0, column_count = 0;
    for (std::int64_t b = 0; b < count; ++b) {
      const std::uint8_t form = forms[b];
      if (!DctForm::is_valid(form)) return false;
      dc_count += DctForm::has_dc(form);
      row_count += DctForm::is_sparse(form);
    }
    dcs = in + count;
    rows = dcs + 2 * dc_count;
    columns = rows + row_count;
    if (columns - in > size) return false;
    for (const std::byte* row = rows; row < columns; ++row) {
      column_count += std::popcount(static_cast<std::uint8_t>(*row));
    }
    codes = columns + column_count;
    code_bytes = size - (codes - in);
    return code_bytes >= 0;
  }

  /// The next `size` bytes of codes, or null.
  const std::byte* take(std::int64_t size) {
    if (size > code_bytes) return nullptr;
    const std::byte* const taken = codes;
    codes += size;
    code_bytes -= size;
    return taken;
  }
};

/// Unpacks the codes of a block of `form` to the columns from `z` on. 16 bytes are readable past
/// the reader's codes. @return false when the codes run out or contradict the form
HWY_INLINE bool read_block(std::uint8_t form, DctReader& reader, std::uint16_t* HWY_RESTRICT z) {
  const hn::FixedTag<std::uint16_t, 8> d;
  const hn::Repartition<std::uint8_t, decltype(d)> d8;
  const int width = DctForm::width(form);
  std::int16_t dc;
  std::memcpy(&dc, reader.dcs, 2);
  reader.dcs += 2;
  const auto put_row = [&](int v, auto row)
                           CINCH_INLINE_LAMBDA { hn::StoreU(row, d, z + v * kDctColumns); };
  if (DctForm::is_dense(form)) {
    const std::byte* const packed = reader.take(((kDctBlock - 1) * width + 7) / 8);
    if (packed == nullptr) return false;
    // DC has no code, so each row begins one code early.
    const auto spread = hn::LoadU(d8, cpu::kSpread16[0xFE].data());
    const auto first = hn::BitCast(d8, eight_codes(width, packed, 0));
    put_row(0, hn::BitCast(d, hn::TableLookupBytes(first, spread)));
    for (int v = 1; v < kDctEdge; ++v) {
      put_row(v, eight_codes(width, packed, (kDctEdge * v - 1) * width));
    }
  } else {
    const unsigned rows = width > 0 ? std::to_integer<unsigned>(*reader.rows++) : 0;
    const std::byte* columns = reader.columns;
    std::int64_t count = 0;
    for (unsigned rest = rows; rest != 0; rest &= rest - 1) {
      count += std::popcount(std::to_integer<unsigned>(*columns++));
    }
    const std::byte* const packed = reader.take((count * width + 7) / 8);
    if (packed == nullptr) return false;
    // DC has no bit.
    if ((rows & 1) != 0 && (std::to_integer<unsigned>(*reader.columns) & 1) != 0) return false;
    std::int64_t at = 0;
    for (int v = 0; v < kDctEdge; ++v) {
      auto row = hn::Zero(d);
      if ((rows >> v & 1) != 0) {
        const auto held = std::to_integer<std::uint8_t>(*reader.columns++);
        const auto some = hn::BitCast(d8, eight_codes(width, packed, at));
        const auto order = hn::LoadU(d8, cpu::kSpread16[held].data());
        const auto codes = hn::BitCast(d, hn::TableLookupBytes(some, order));
        const std::uint8_t bits[8] = {held};
        row = hn::IfThenElseZero(hn::LoadMaskBits(d, bits), hn::Add(codes, hn::Set(d, 1)));
        at += std::popcount(held) * width;
      }
      put_row(v, row);
    }
  }
  z[0] = static_cast<std::uint16_t>(dct_zigzag(dc));
  return true;
}

/// Copies a raw block's elements to their places. @return false when the bytes run out
inline bool read_raw(const DctGeometry& geometry, const DctGeometry::Block& block,
                     std::int64_t size, DctReader& reader, void* target) {
  const std::byte* from = reader.take(block.elements() * size);
  if (from == nullptr) return false;
  for (std::int64_t i = 0; i < block.rows; ++i, from += block.columns * size) {
    copy_apart(size, from, 1, block.columns,
               static_cast<std::byte*>(target) + (block.offset + i * geometry.row_stride()) * size,
               geometry.column_stride());
  }
  return true;
}

/// Multiplies the codes in columns [0, n) of the tile by their blocks' `steps`.
HWY_INLINE void dequantize_blocks(DctTile& tile, std::int64_t n, const float* steps) {
  const DctTag d;
  const hn::RebindToSigned<DctTag> di;
  const hn::Rebind<std::uint16_t, DctTag> d16;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t c = 0; c < n; c += lanes) {
    auto step = hn::Set(d, steps[c / kDctEdge]);
    if (lanes == 16) {
      const auto second = hn::Set(d, steps[c / kDctEdge + 1]);
      step = hn::IfThenElse(hn::FirstN(d, 8), step, second);
    }
    for (int v = 0; v < kDctEdge; ++v) {
      const auto z = hn::PromoteTo(di, hn::LoadU(d16, tile.codes + v * kDctColumns + c));
      const auto sign = hn::Neg(hn::And(z, hn::Set(di, 1)));
      const auto q = hn::ConvertTo(d, hn::Xor(hn::ShiftRight<1>(z), sign));
      hn::StoreU(hn::Mul(q, step), d, tile.coefficients + v * kDctColumns + c);
    }
  }
}

/// Decodes blocks [first, first + count) of `geometry`, a chunk, from the `size` bytes at `in`,
/// with 16 readable bytes behind them.
/// @return false when they are not as encode writes them
inline HWY_NOINLINE bool decode_chunk(const cpu::DctJob& job, const DctGeometry& geometry,
                                      const std::byte* in, std::int64_t size, std::int64_t first,
                                      std::int64_t count, DctTile& tile, void* target) {
  const ElementType type = job.what.type;
  const auto element = static_cast<std::int64_t>(element_size(type));
  DctReader reader;
  if (!reader.find(in, size, count)) return false;
  DctGeometry::Block blocks[kDctChunk];
  geometry.list(first, count, blocks);
  float steps[kDctChunk + 1] = {};
  for (std::int64_t b = 0; b < count; ++b) {
    const std::uint8_t form = reader.forms[b];
    std::uint16_t* const z = tile.codes + b * kDctEdge;
    if (form == kDctRawForm && !read_raw(geometry, blocks[b], element, reader, target)) {
      return false;
    }
    if (form == kDctRawForm || form == kDctZeroForm) {
      for (int v = 0; v < kDctEdge; ++v) {
        std::memset(z + v * kDctColumns, 0, kDctEdge * sizeof *z);
      }
      continue;
    }
    steps[b] = dct_step(DctForm::level(form)) * job.parameters.error_bound;
    if (!read_block(form, reader, z)) return false;
  }
  if (reader.code_bytes != 0) return false;

  const std::int64_t n = (count * kDctEdge + 15) / 16 * 16;
  dequantize_blocks(tile, n, steps);
  const DctTag d;
  dct_reconstruct(
      tile.coefficients, n, type, [&](std::int64_t c, DctRows& rows) CINCH_INLINE_LAMBDA {
        rows.for_each([&](int i, const DctVec& y)
                          CINCH_INLINE_LAMBDA { hn::StoreU(y, d, tile.x + i * kDctColumns + c); });
      });
  scatter_blocks(geometry, type, blocks, reader.forms, count, tile.x, target);
  return true;
}

/// Decodes chunks [first, last). `begins` has the chunks' offsets and one more, the last one's end;
/// `end` is the end of `in`.
/// @pre first is a multiple of the job's grain
/// @return false when memory ran out or a chunk is not as encode writes it
bool dct_decode(const cpu::DctJob& job, const std::byte* in, const std::int64_t* begins,
                std::int64_t end, std::int64_t first, std::int64_t last, void* target) {
  const auto size = static_cast<std::int64_t>(element_size(job.what.type));
  cpu::Workspace& work = cpu::workspace();
  auto* const tile = work.plane.get<DctTile>(1);
  const std::int64_t tile_elements = kDctChunk * job.what.layout.plane_size();
  auto* const planes =
      job.gathers ? work.tile.get<std::byte>(tile_elements * size) : work.tile.get<std::byte>(0);
  auto* const padded = work.codes.get<std::byte>((std::int64_t{1} << 16) + 16);
  if (tile == nullptr || planes == nullptr || padded == nullptr) return false;

  const DctGeometry tile_geometry(job.tile_layout);
  const std::int64_t in_tile = job.geometry.blocks_of_plane();  // chunks
  for (std::int64_t chunk = first; chunk < last; ++chunk) {
    const std::int64_t begin = chunk * kDctChunk;
    const std::int64_t count = std::min(kDctChunk, job.geometry.blocks() - begin);
    const std::byte* from = in + begins[chunk];
    const std::int64_t bytes = begins[chunk + 1] - begins[chunk];
    constexpr std::int64_t kBeyond = 16;
    if (begins[chunk + 1] + kBeyond > end) {
      std::memcpy(padded, from, static_cast<std::size_t>(bytes));
      from = padded;
    }
    if (!job.gathers) {
      if (!decode_chunk(job, job.geometry, from, bytes, begin, count, *tile, target)) return false;
      continue;
    }
    if (!decode_chunk(job, tile_geometry, from, bytes, chunk % in_tile * kDctChunk, count, *tile,
                      planes)) {
      return false;
    }
    if (chunk % in_tile == in_tile - 1 || chunk == last - 1) {
      const std::int64_t plane = chunk / in_tile * kDctChunk;
      cpu::scatter_planes(job.what.layout, static_cast<std::size_t>(size), planes, plane,
                          std::min(kDctChunk, job.what.layout.planes() - plane), target);
    }
  }
  return true;
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
