// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_FIXED_POINT_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_FIXED_POINT_DECODE_INL_H_
#undef CINCH_CODECS_CPU_FIXED_POINT_DECODE_INL_H_
#else
#define CINCH_CODECS_CPU_FIXED_POINT_DECODE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/fixed_point/job.h"
#include "codecs/cpu/fixed_point/tiles-inl.h"
#include "codecs/cpu/vectors/bits-inl.h"
#include "codecs/cpu/vectors/wide_codes-inl.h"
#include "codecs/cpu/vectors/zero_value-inl.h"
#include "codecs/cpu/workspace.h"
#include "codecs/float_formats.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Stores a vector of floats as elements of `S`, all lanes or the first `count`.
template <class S, class DF, class VF = hn::Vec<DF>>
HWY_INLINE void store_floats(DF df, VF x, std::int64_t count, void* target, std::int64_t i) {
  auto* const to = static_cast<typename S::Raw*>(target) + i;
  if (count >= static_cast<std::int64_t>(hn::Lanes(df))) {
    S::store(df, x, to);
    return;
  }
  typename S::Raw rest[HWY_MAX_BYTES / sizeof(float)];
  S::store(df, x, rest);
  std::memcpy(to, rest, static_cast<std::size_t>(count) * sizeof *to);
}

/// Decodes n codes to elements of `S` at `target`. If `mask` is not null, elements are zero
/// where its bits are 0; a vector is readable past it. Loads up to a vector past the codes.
template <class S, class Code>
HWY_NOINLINE void dequantize(const Code* HWY_RESTRICT codes, const std::uint8_t* mask,
                             std::int64_t n, AffineRange range, void* HWY_RESTRICT target) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<Code, decltype(df)> d_code;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  const auto lo = hn::Set(df, float_of_bf16(range.lo));
  const auto step = hn::Set(df, float_of_bf16(range.step));
  const auto run = [&](auto masked) {
    for (std::int64_t i = 0; i < n; i += lanes) {
      const auto code = hn::ConvertTo(df, hn::PromoteTo(di, hn::LoadU(d_code, codes + i)));
      auto x = hn::Add(lo, hn::Mul(step, code));
      if constexpr (masked.value) x = hn::IfThenElseZero(mask_at(df, mask, i), x);
      store_floats<S>(df, x, n - i, target, i);
    }
  };
  if (mask != nullptr) {
    run(std::true_type());
  } else {
    run(std::false_type());
  }
}

/// Unpacks codes [begin, begin + count) of the stream `in` of `size` bytes. @return where they lie,
/// in `room` or in the stream itself
HWY_INLINE const std::uint8_t* unpack_run(int bits, const std::byte* in, std::int64_t size,
                                          std::int64_t begin, std::int64_t count,
                                          std::uint8_t* HWY_RESTRICT room) {
  return unpack_codes(bits, in, size, begin, count, room);
}
HWY_INLINE const std::uint16_t* unpack_run(int bits, const std::byte* in, std::int64_t size,
                                           std::int64_t begin, std::int64_t count,
                                           std::uint16_t* HWY_RESTRICT room) {
  const std::int64_t skipped = begin % 8;
  const std::int64_t offset = begin / 8 * bits;
  unpack_wide(bits, in + offset, size - offset, skipped + count, room);
  return room + skipped;
}

/// A chunk that is read piece by piece.
struct ChunkReader {
  const std::byte* in;
  std::int64_t whole;     ///< elements of the chunk
  std::int64_t nonzero;   ///< zero_value: number of codes
  std::int64_t used = 0;  ///< codes of earlier pieces
};

/// Decodes elements [begin, begin + count) of a chunk to `target`. `room` and `spread` have room
/// for a piece and two vectors.
/// @return false when the ones in a zero_value chunk's mask don't match the number of codes
template <class S, class Code>
bool decode_codes(ChunkReader& chunk, std::int64_t begin, std::int64_t count,
                  const ChannelFormat& format, Code* HWY_RESTRICT room, Code* HWY_RESTRICT spread,
                  void* HWY_RESTRICT target) {
  const int bits = format.bits;
  if (format.form == ChannelForm::codes) {
    const std::int64_t size = codes_bytes(chunk.whole, bits);
    dequantize<S>(unpack_run(bits, chunk.in, size, begin, count, room), nullptr, count,
                  format.range, target);
    return true;
  }
  const std::int64_t mask_bytes = (count + 7) / 8;
  std::uint8_t mask[kFixedPointChunk / 8 + HWY_MAX_BYTES];
  std::memcpy(mask, chunk.in + begin / 8, static_cast<std::size_t>(mask_bytes));
  std::memset(mask + mask_bytes, 0, HWY_MAX_BYTES);
  if (count % 8 != 0) mask[mask_bytes - 1] &= static_cast<std::uint8_t>((1 << (count % 8)) - 1);
  const std::int64_t ones = count_ones(mask, mask_bytes);
  const std::int64_t rest = chunk.nonzero - chunk.used;
  const bool last = begin + count == chunk.whole;
  if (last ? ones != rest : ones > rest) {
    chunk.used = chunk.nonzero;
    return false;
  }
  const Code* const codes = unpack_run(bits, chunk.in + (chunk.whole + 7) / 8,
                                       codes_bytes(chunk.nonzero, bits), chunk.used, ones, room);
  chunk.used += ones;
  spread_codes(mask, mask_bytes, codes, spread);
  dequantize<S>(spread, mask, count, format.range, target);
  return true;
}

template <class S>
bool decode_tasks(const cpu::FixedPointJob& job, const std::byte* in, const ChannelFormat* formats,
                  const std::int64_t* offsets, const std::int32_t* nonzero, std::int64_t first,
                  std::int64_t last, void* target) {
  constexpr std::int64_t kSize = sizeof(typename S::Bits);
  const auto slack = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint8_t>()));
  const std::int64_t channels = job.what.layout.channels();
  const std::int64_t stride = tile_stride(job);
  cpu::Workspace& work = cpu::workspace();
  auto* const tile = work.tile.get<std::byte>(job.cut.group * stride * kSize);
  const std::int64_t code_room = job.piece + 16 + 2 * slack;
  auto* const room = work.codes.get<std::uint16_t>(2 * code_room);
  if (tile == nullptr || room == nullptr) return false;
  auto* const spread = room + code_room;

  bool good = true;
  ChunkReader readers[cpu::FixedPointJob::kMaxGroup];
  const auto decode = [&](std::byte* x, std::int64_t c, std::int64_t i, std::int64_t chunk,
                          std::int64_t begin, std::int64_t count) {
    const std::int64_t entry = chunk * channels + c;
    if (begin == 0) {
      readers[i] = {in + offsets[entry], chunk_elements(job.elements, chunk), nonzero[entry]};
    }
    const ChannelFormat& format = formats[c];
    if (format.form == ChannelForm::raw) {
      std::memcpy(x, readers[i].in + begin * kSize, static_cast<std::size_t>(count * kSize));
    } else if (format.bits > 8) {
      good &= decode_codes<S>(readers[i], begin, count, format, room, spread, x);
    } else {
      good &=
          decode_codes<S>(readers[i], begin, count, format, reinterpret_cast<std::uint8_t*>(room),
                          reinterpret_cast<std::uint8_t*>(spread), x);
    }
  };
  for (std::int64_t t = first; t < last && good; ++t) {
    const auto task = job.task(job.cut, t);
    if (job.way == cpu::FixedPointJob::Way::planes) {
      job.for_each_part(task, [&](std::int64_t c, std::int64_t chunk, std::int64_t begin,
                                  std::int64_t count, std::int64_t offset) {
        decode(static_cast<std::byte*>(target) + offset * kSize, c, c - task.first_channel, chunk,
               begin, count);
      });
      continue;
    }
    for (std::int64_t begin = 0; begin < task.count; begin += job.piece) {
      auto piece = task;
      piece.begin += begin;
      piece.count = std::min(job.piece, task.count - begin);
      for (std::int64_t i = 0; i < task.channels; ++i) {
        decode(tile + i * stride * kSize, task.first_channel + i, i, task.begin / kFixedPointChunk,
               begin, piece.count);
      }
      scatter_tile<S>(job, piece, tile, target);
    }
  }
  return good;
}

/// Decodes tasks [first, last). `offsets` and `nonzero` are indexed [chunk * channels + channel].
/// @return false when memory ran out or a chunk is not as encode writes it
bool fixed_point_decode(const cpu::FixedPointJob& job, const std::byte* in,
                        const ChannelFormat* formats, const std::int64_t* offsets,
                        const std::int32_t* nonzero, std::int64_t first, std::int64_t last,
                        void* target) {
  return with_element(job.what.type, [&](auto kind) {
    return decode_tasks<decltype(kind)>(job, in, formats, offsets, nonzero, first, last, target);
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
