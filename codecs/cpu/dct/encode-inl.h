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

#include "codecs/cpu/dct/job.h"
#include "codecs/cpu/dct/tile-inl.h"
#include "codecs/cpu/dct/transform-inl.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/vectors/wide_codes-inl.h"
#include "codecs/cpu/workspace.h"
#include "codecs/cpu/zero_value_tables.h"
#include "codecs/float_formats.h"
#include "codecs/formats/dct.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Facts about a tile's blocks, from vectors of their coefficients that begin in column `c`.
struct DctFacts {
  using DU = hn::RebindToUnsigned<DctTag>;
  static constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(DctTag()));

  DctTile& tile;
  std::uint64_t bad = 0;  ///< one bit a block: a lane was not good

  template <class M>
  HWY_INLINE void note_good(std::int64_t c, M good) {
    std::uint8_t bits[8] = {};
    hn::StoreMaskBits(DctTag(), hn::Not(good), bits);
    if (bits[0] != 0) bad |= std::uint64_t{1} << (c / kDctEdge);
    if (kLanes > 8 && bits[1] != 0) bad |= std::uint64_t{2} << (c / kDctEdge);
  }

  /// One byte a block, or half of one.
  template <class M>
  HWY_INLINE void put_mask(std::int64_t c, int row, M mask) const {
    std::uint8_t bits[8];
    hn::StoreMaskBits(DU(), mask, bits);
    std::uint8_t* const to = tile.masks + c + row;
    if constexpr (kLanes >= 8) {
      to[0] = bits[0];
      if constexpr (kLanes > 8) to[kDctEdge] = bits[1];
    } else if (c % kDctEdge == 0) {
      to[0] = bits[0];
    } else {
      (to - c % kDctEdge)[0] |= static_cast<std::uint8_t>(bits[0] << 4);
    }
  }

  /// Puts the OR of a block's lanes, which have 16 bits.
  static HWY_INLINE void put_all(std::int64_t c, hn::Vec<DU> of_lanes,
                                 std::uint16_t* all_of_block) {
    const hn::Rebind<std::uint16_t, DctTag> d16;
    HWY_ALIGN std::uint16_t lanes[16] = {};
    hn::Store(hn::TruncateTo(d16, of_lanes), d16, lanes);
    for (std::int64_t lane = 0; lane < kLanes; lane += kDctEdge) {
      std::uint64_t words[2];
      std::memcpy(words, lanes + lane, 16);
      std::uint64_t joined = words[0] | words[1];
      joined |= joined >> 32;
      joined |= joined >> 16;
      std::uint16_t& to = all_of_block[(c + lane) / kDctEdge];
      const bool begins = (c + lane) % kDctEdge == 0;
      to = static_cast<std::uint16_t>(begins ? joined : to | joined);
    }
  }
};

/// Writes the codes of the blocks in columns [0, n) of the tile's x, in steps of `step`, and the
/// facts about them.
/// @return one bit a block: all elements finite and within the bound, all codes small enough
inline HWY_NOINLINE std::uint64_t quantize_blocks(DctTile& tile, std::int64_t n, float step,
                                                  float bound, ElementType type) {
  const DctTag d;
  const hn::RebindToSigned<DctTag> di;
  const hn::RebindToUnsigned<DctTag> du;
  const hn::Rebind<std::uint16_t, DctTag> d16;
  const auto scale = hn::Set(d, 1.0F / step);
  const auto steps = hn::Set(d, step);
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the sum's low bits.
  const auto magic = hn::Set(d, 0x1.8p23F);
  const auto limit = hn::Set(d, kDctMaxCode + 0.5F);
  const auto largest = hn::Set(d, kAffineMaxMagnitude);
  const auto all = hn::Not(hn::MaskFromVec(hn::Zero(d)));
  DctFacts facts{tile};
  // DC is the first of eight lanes.
  HWY_ALIGN std::uint32_t but_dc[16];
  for (int lane = 0; lane < 16; ++lane) but_dc[lane] = lane % 8 == 0 ? 0 : 0xFFFFFFFF;

  on_turned(
      tile.x, n, [](DctRows& rows) CINCH_INLINE_LAMBDA { dct_forward(rows); },
      [&](std::int64_t c, DctRows& rows) CINCH_INLINE_LAMBDA {
        dct_forward(rows);
        auto good = all;
        auto dense = hn::Zero(du), sparse = hn::Zero(du);
        rows.for_each([&](int v, DctVec& coefficient) CINCH_INLINE_LAMBDA {
          const auto q = hn::Mul(coefficient, scale);
          good = hn::And(good, hn::Lt(hn::Abs(q), limit));
          const auto sum = hn::Add(q, magic);
          const auto code = hn::Sub(hn::BitCast(di, sum), hn::BitCast(di, magic));
          auto z = hn::BitCast(du, hn::Xor(hn::ShiftLeft<1>(code), hn::ShiftRight<31>(code)));
          hn::StoreU(hn::TruncateTo(d16, z), d16, tile.codes + v * kDctColumns + c);
          hn::StoreU(hn::Mul(hn::Sub(sum, magic), steps), d,
                     tile.coefficients + v * kDctColumns + c);
          if (v == 0) z = hn::And(z, hn::Load(du, but_dc + c % kDctEdge));
          const auto nonzero = hn::Ne(z, hn::Zero(du));
          dense = hn::Or(dense, z);
          sparse = hn::Or(sparse, hn::IfThenElseZero(nonzero, hn::Sub(z, hn::Set(du, 1))));
          facts.put_mask(c, v, nonzero);
        });
        facts.note_good(c, good);
        facts.put_all(c, dense, tile.all_dense);
        facts.put_all(c, sparse, tile.all_sparse);
      });
  const auto bounds = hn::Set(d, bound);
  dct_reconstruct(tile.coefficients, n, type,
                  [&](std::int64_t c, DctRows& rows) CINCH_INLINE_LAMBDA {
                    auto good = all;
                    rows.for_each([&](int i, const DctVec& y) CINCH_INLINE_LAMBDA {
                      const auto x = hn::LoadU(d, tile.x + i * kDctColumns + c);
                      good = hn::And(good, hn::Lt(hn::Abs(hn::Sub(x, y)), bounds));
                      good = hn::And(good, hn::Le(hn::Abs(x), largest));
                    });
                    facts.note_good(c, good);
                  });
  return ~facts.bad;
}

/// Copies block `from` of one tile, except its elements, to block `to` of another.
inline void copy_codes(const DctTile& source, std::int64_t from, DctTile& target, std::int64_t to) {
  for (std::int64_t v = 0; v < kDctEdge; ++v) {
    std::memcpy(target.codes + v * kDctColumns + to * kDctEdge,
                source.codes + v * kDctColumns + from * kDctEdge, kDctEdge * 2);
  }
  std::memcpy(target.masks + to * kDctEdge, source.masks + from * kDctEdge, kDctEdge);
  target.all_dense[to] = source.all_dense[from];
  target.all_sparse[to] = source.all_sparse[from];
}

/// Copies only the block's elements.
inline void copy_elements(const DctTile& source, std::int64_t from, DctTile& target,
                          std::int64_t to) {
  for (std::int64_t i = 0; i < kDctEdge; ++i) {
    std::memcpy(target.x + i * kDctColumns + to * kDctEdge,
                source.x + i * kDctColumns + from * kDctEdge, kDctEdge * 4);
  }
}

/// An encoded chunk, part by part.
struct DctParts {
  std::uint8_t forms[kDctChunk];
  std::int16_t dcs[kDctChunk];
  std::uint8_t rows[kDctChunk];
  std::uint8_t columns[kDctChunk * kDctEdge];
  std::int64_t dc_count = 0, row_count = 0, column_count = 0, code_bytes = 0;
  std::byte codes[kDctChunk * kDctBlock * sizeof(float) + 16];

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

/// Adds block b of the tile to the parts. @param raw bytes of the block's elements
/// @return false when raw is no larger
HWY_INLINE bool add_block(const DctTile& tile, std::int64_t b, int level, bool zero_value,
                          std::int64_t raw, DctParts& parts) {
  const hn::FixedTag<std::uint16_t, 8> d;
  const hn::Repartition<std::uint8_t, decltype(d)> d8;
  const std::uint16_t* const z = tile.codes + b * kDctEdge;
  const std::uint8_t* const masks = tile.masks + b * kDctEdge;
  std::uint64_t mask;
  std::memcpy(&mask, masks, 8);
  // In the lowest bit of each byte: whether any of its bits is set.
  constexpr std::uint64_t kLowBits = 0x0101010101010101U;
  std::uint64_t any = mask | mask >> 4;
  any |= any >> 2;
  any = (any | any >> 1) & kLowBits;
  const std::int32_t dc = dct_unzigzag(z[0]);
  const DctForm form = dct_form(level, dc, std::popcount(mask), std::popcount(any),
                                tile.all_sparse[b], tile.all_dense[b], zero_value, raw);
  if (form.form == kDctRawForm) return false;
  parts.forms[b] = form.form;
  if (form.form == kDctZeroForm) return true;
  parts.dcs[parts.dc_count++] = static_cast<std::int16_t>(dc);
  const int width = DctForm::width(form.form);
  if (width == 0) return true;
  BitWriter writer(parts.codes + parts.code_bytes);
  const auto put = [&](unsigned held, auto some) CINCH_INLINE_LAMBDA {
    const auto order = hn::LoadU(d8, cpu::kGather16[held].data());
    const auto codes = hn::TableLookupBytes(hn::BitCast(d8, some), order);
    writer.put(width, hn::BitCast(d, codes), std::popcount(held));
  };
  const auto row = [&](int v) CINCH_INLINE_LAMBDA { return hn::LoadU(d, z + v * kDctColumns); };
  if (DctForm::is_dense(form.form)) {
    for (int v = 0; v < kDctEdge; ++v) put(v == 0 ? 0xFE : 0xFF, row(v));
  } else {
    // Bit v is row v's: the product brings bit 0 of byte v to bit 56 + v.
    parts.rows[parts.row_count++] =
        static_cast<std::uint8_t>(any * std::uint64_t{0x0102040810204080U} >> 56);
    for (; any != 0; any &= any - 1) {
      const int v = std::countr_zero(any) / 8;
      parts.columns[parts.column_count++] = masks[v];
      put(masks[v], hn::Sub(row(v), hn::Set(d, 1)));
    }
  }
  parts.code_bytes = writer.end() - parts.codes;
  return true;
}

/// Adds block b to the parts as its elements' bytes.
inline void add_raw(const DctGeometry& geometry, const DctGeometry::Block& block,
                    const void* source, std::int64_t size, std::int64_t b, DctParts& parts) {
  parts.forms[b] = kDctRawForm;
  const auto* const from = static_cast<const std::byte*>(source);
  for (std::int64_t i = 0; i < block.rows; ++i) {
    copy_apart(size, from + (block.offset + i * geometry.row_stride()) * size,
               geometry.column_stride(), block.columns, parts.codes + parts.code_bytes, 1);
    parts.code_bytes += block.columns * size;
  }
}

/// Encodes blocks [first, first + count) of `geometry`, a chunk, to `out`.
/// @param readable elements at `source` @return the chunk's size
inline HWY_NOINLINE std::int64_t encode_chunk(const cpu::DctJob& job, const DctGeometry& geometry,
                                              const void* source, std::int64_t readable,
                                              std::int64_t first, std::int64_t count, DctTile& tile,
                                              DctTile& again, DctParts& parts, std::byte* out) {
  const ElementType type = job.what.type;
  const auto size = static_cast<std::int64_t>(element_size(type));
  const float bound = job.parameters.error_bound;
  const auto up_to_16 = [](std::int64_t blocks) { return (blocks * kDctEdge + 15) / 16 * 16; };
  DctGeometry::Block blocks[kDctChunk];
  geometry.list(first, count, blocks);
  gather_blocks(geometry, type, source, readable, blocks, count, tile.x);
  // Prefetch the next chunk: memory would idle while this one is computed.
  if (geometry.column_stride() == 1 && first + count < geometry.blocks()) {
    const std::int64_t from = geometry.block(first + count).offset;
    const std::int64_t lines = std::min(kDctChunk * kDctBlock, readable - from) * size / 64;
    for (std::int64_t line = 0; line < lines; ++line) {
      hwy::Prefetch(static_cast<const std::byte*>(source) + from * size + line * 64);
    }
  }
  const std::uint64_t all = (std::uint64_t{1} << count) - 1;
  std::uint64_t held = quantize_blocks(tile, up_to_16(count), dct_step(0) * bound, bound, type);
  std::uint8_t levels[kDctChunk] = {};
  // Blocks that miss the bound are quantized again in finer steps, side by side.
  for (int level = 1; level < kDctLevels && (all & ~held) != 0; ++level) {
    std::int64_t failed[kDctChunk];
    std::int64_t some = 0;
    for (std::uint64_t rest = all & ~held; rest != 0; rest &= rest - 1) {
      failed[some] = std::countr_zero(rest);
      copy_elements(tile, failed[some], again, some);
      ++some;
    }
    const std::uint64_t now =
        quantize_blocks(again, up_to_16(some), dct_step(level) * bound, bound, type);
    for (std::int64_t k = 0; k < some; ++k) {
      if ((now >> k & 1) == 0) continue;
      held |= std::uint64_t{1} << failed[k];
      levels[failed[k]] = static_cast<std::uint8_t>(level);
      copy_codes(again, k, tile, failed[k]);
    }
  }

  parts.dc_count = parts.row_count = parts.column_count = parts.code_bytes = 0;
  for (std::int64_t b = 0; b < count; ++b) {
    const bool fits =
        (held >> b & 1) != 0 && add_block(tile, b, levels[b], job.parameters.zero_value,
                                          blocks[b].elements() * size, parts);
    if (!fits) add_raw(geometry, blocks[b], source, size, b, parts);
  }
  return parts.write(count, out);
}

/// Encodes chunks [first, last), packed tightly, starting where the first would lie if all before
/// it had their largest size. Writes one entry a chunk to `sizes` and `begins`.
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
      bytes = encode_chunk(job, tile_geometry, planes, tile_elements, chunk % in_tile * kDctChunk,
                           count, tiles[0], tiles[1], *parts, payload + at);
    } else {
      bytes = encode_chunk(job, job.geometry, source, job.readable, begin, count, tiles[0],
                           tiles[1], *parts, payload + at);
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
