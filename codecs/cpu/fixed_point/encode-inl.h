// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_FIXED_POINT_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_FIXED_POINT_ENCODE_INL_H_
#undef CINCH_CODECS_CPU_FIXED_POINT_ENCODE_INL_H_
#else
#define CINCH_CODECS_CPU_FIXED_POINT_ENCODE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codecs/cpu/fixed_point/job.h"
#include "codecs/cpu/fixed_point/tiles-inl.h"
#include "codecs/cpu/vectors/bits-inl.h"
#include "codecs/cpu/vectors/masks-inl.h"
#include "codecs/cpu/vectors/wide_codes-inl.h"
#include "codecs/cpu/workspace.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// affine_code (up to 8 bits) or affine_code_wide, a vector at a time. Bits above a code's one or
/// two bytes are undefined.
template <int kMaxBits>
class Quantizer {
 public:
  Quantizer(AffineRange range, int bits)
      : lo_(float_of_bf16(range.lo)),
        scale_(kMaxBits <= 8 ? affine_scale(range) : divisor(range)),
        top_((1 << bits) - 1) {}

  template <class DF, class VF, class VI>
  HWY_INLINE VI operator()(DF df, VF x, VI draw) const {
    const hn::RebindToSigned<DF> di;
    const auto offset = hn::Sub(x, hn::Set(df, lo_));
    if constexpr (kMaxBits > 8) {
      const auto t = hn::Div(offset, hn::Set(df, scale_));
      const auto whole = hn::Floor(t);
      const auto fraction = hn::Mul(hn::Sub(t, whole), hn::Set(df, 65536.0F));
      const auto up = hn::ShiftRight<16>(hn::Add(integer_bits(df, fraction), draw));
      const auto code = hn::Add(integer_bits(df, whole), hn::Sub(up, hn::Set(di, kBits >> 16)));
      return hn::Min(code, hn::Set(di, kBits + top_));
    } else {
      const auto u = hn::Mul(offset, hn::Set(df, scale_));
      if constexpr (kMaxBits == 8) {
        const auto code = hn::ShiftRight<16>(hn::Add(hn::NearestInt(u), draw));
        return hn::Min(code, hn::Set(di, top_));
      } else {
        const auto code = hn::ShiftRight<16>(hn::Add(integer_bits(df, u), draw));
        return hn::Min(code, hn::Set(di, (kBits >> 16) + top_));
      }
    }
  }

 private:
  /// Adding 2^23 rounds to an integer and leaves it in the sum's low bits, if it is below 2^23. The
  /// bits above are those of 2^23.
  static constexpr std::int32_t kBits = 0x4B000000;
  template <class DF, class VF>
  static HWY_INLINE auto integer_bits(DF df, VF x) {
    const hn::RebindToSigned<DF> di;
    return hn::BitCast(di, hn::Add(x, hn::Set(df, 0x1p23F)));
  }

  static float divisor(AffineRange range) {
    const float step = float_of_bf16(range.step);
    return step > 0.0F ? step : 1.0F;
  }

  float lo_;
  float scale_;
  std::int32_t top_;
};

/// Writes the codes of n elements of `S` at `source`, or of only the non-zero ones. Loads and
/// stores up to a vector past source, draws and codes. @return the number of codes
template <class S, bool kNonzeroOnly, class Code, class Q>
HWY_NOINLINE std::int64_t quantize_run(const void* HWY_RESTRICT source,
                                       const std::uint16_t* HWY_RESTRICT draws, std::int64_t n,
                                       const Q& quantizer, Code* HWY_RESTRICT codes) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::Rebind<std::uint16_t, decltype(df)> d16;
  const hn::Rebind<Code, decltype(df)> d_code;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < n; i += lanes) {
    const auto x = load_floats<S>(df, source, i);
    const auto draw = hn::PromoteTo(di, hn::LoadU(d16, draws + i));
    const auto code = hn::BitCast(du, quantizer(df, x, draw));
    if constexpr (kNonzeroOnly) {
      auto nonzero = hn::Ne(x, hn::Zero(df));
      if (i + lanes > n) {
        nonzero = hn::And(nonzero, hn::FirstN(df, static_cast<std::size_t>(n - i)));
      }
      const auto mask = hn::RebindMask(du, nonzero);
      hn::StoreU(hn::TruncateTo(d_code, hn::Compress(code, mask)), d_code, codes + at);
      at += static_cast<std::int64_t>(hn::CountTrue(du, mask));
    } else {
      hn::StoreU(hn::TruncateTo(d_code, code), d_code, codes + i);
    }
  }
  return kNonzeroOnly ? at : n;
}

inline void pack_run(int bits, std::uint8_t* HWY_RESTRICT codes, std::int64_t n,
                     std::byte* HWY_RESTRICT out) {
  pack_codes(bits, codes, n / 8, out);
  if (n % 8 != 0) pack_tail(bits, codes + n / 8 * 8, n % 8, out + n / 8 * bits);
}

inline void pack_run(int bits, std::uint16_t* HWY_RESTRICT codes, std::int64_t n,
                     std::byte* HWY_RESTRICT out) {
  if (n % 8 != 0) std::memset(codes + n, 0, 8 * sizeof(std::uint16_t));
  pack_wide(bits, codes, n, out);
}

/// A stream of codes that is written piece by piece. Codes that don't fill a byte yet wait.
struct PendingCodes {
  std::int64_t written = 0;  ///< bytes
  std::int64_t waiting = 0;  ///< codes
  std::byte codes[8 * sizeof(std::uint16_t)];
};

/// Appends the codes of n elements of `S` at `source`, in `format`, to the stream at `out`.
/// @param last whether they end the stream @param room room for n codes, 8 more and a vector
template <class S, bool kNonzeroOnly>
void encode_codes(const void* HWY_RESTRICT source, const std::uint16_t* HWY_RESTRICT draws,
                  std::int64_t n, bool last, const ChannelFormat& format, std::uint16_t* room,
                  PendingCodes& pending, std::byte* HWY_RESTRICT out) {
  const auto encode = [&](auto max_bits, auto* codes) {
    std::memcpy(codes, pending.codes, 8 * sizeof *codes);
    const Quantizer<max_bits.value> quantizer(format.range, format.bits);
    const std::int64_t count =
        pending.waiting +
        quantize_run<S, kNonzeroOnly>(source, draws, n, quantizer, codes + pending.waiting);
    const std::int64_t ready = last ? count : count / 8 * 8;
    std::memcpy(pending.codes, codes + ready, 8 * sizeof *codes);
    pack_run(format.bits, codes, ready, out + pending.written);
    pending.written += ready / 8 * format.bits;
    pending.waiting = count - ready;
  };
  if (format.bits > 8) {
    encode(std::integral_constant<int, 16>(), room);
  } else if (format.bits == 8) {
    encode(std::integral_constant<int, 8>(), reinterpret_cast<std::uint8_t*>(room));
  } else {
    encode(std::integral_constant<int, 7>(), reinterpret_cast<std::uint8_t*>(room));
  }
}

/// Writes one bit an element: whether it is not zero.
template <class S>
HWY_NOINLINE void encode_mask(const void* HWY_RESTRICT source, std::int64_t n,
                              std::byte* HWY_RESTRICT out) {
  // A zero's bits are 0 but for its sign.
  using Bits = typename S::Bits;
  constexpr Bits kMagnitude = static_cast<Bits>(-1) / 2;
  const MaskTag<Bits> d;
  const auto magnitude = hn::Set(d, kMagnitude);
  masks(
      element_at<S>(source, 0), n,
      [&](auto v) { return hn::Ne(hn::And(v, magnitude), hn::Zero(d)); },
      reinterpret_cast<std::uint8_t*>(out));
}

/// Encodes elements [begin, begin + count) of a chunk of `whole` elements; `out` is its place.
template <class S>
void encode_piece(const void* HWY_RESTRICT source, const std::uint16_t* HWY_RESTRICT draws,
                  std::int64_t begin, std::int64_t count, std::int64_t whole,
                  const ChannelFormat& format, std::uint16_t* room, PendingCodes& pending,
                  std::byte* HWY_RESTRICT out) {
  constexpr std::int64_t kSize = sizeof(typename S::Bits);
  if (begin == 0) pending = {};
  const bool last = begin + count == whole;
  switch (format.form) {
    case ChannelForm::raw:
      std::memcpy(out + begin * kSize, source, count * kSize);
      break;
    case ChannelForm::codes:
      encode_codes<S, false>(source, draws, count, last, format, room, pending, out);
      break;
    case ChannelForm::zero_value:
      encode_mask<S>(source, count, out + begin / 8);
      encode_codes<S, true>(source, draws, count, last, format, room, pending,
                            out + (whole + 7) / 8);
  }
}

template <class S>
bool encode_tasks(const cpu::FixedPointJob& job, const void* source, const ChannelFormat* formats,
                  const std::int64_t* offsets, RandomKey key, std::int64_t first, std::int64_t last,
                  std::byte* out) {
  constexpr std::int64_t kSize = sizeof(typename S::Bits);
  const auto slack = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint8_t>()));
  const std::int64_t channels = job.what.layout.channels();
  const std::int64_t stride = tile_stride(job);
  cpu::Workspace& work = cpu::workspace();
  auto* const tile = work.tile.get<std::byte>(job.cut.group * stride * kSize);
  auto* const some = work.signs.get<std::uint16_t>(TileDraws::kRoom);
  auto* draws = work.draws.get<std::uint16_t>(TileDraws::kBefore + job.cut.group * stride +
                                              TileDraws::kBehind);
  auto* const codes = work.codes.get<std::uint16_t>(job.piece + 16 + slack);
  if (tile == nullptr || some == nullptr || draws == nullptr || codes == nullptr) return false;
  draws += TileDraws::kBefore;

  const TileDraws tile_draws(job, key);
  PendingCodes pending[cpu::FixedPointJob::kMaxGroup];
  const auto encode = [&](const std::byte* x, const std::uint16_t* u, std::int64_t c,
                          std::int64_t i, std::int64_t chunk, std::int64_t begin,
                          std::int64_t count) {
    encode_piece<S>(x, u, begin, count, chunk_elements(job.elements, chunk), formats[c], codes,
                    pending[i], out + offsets[chunk * channels + c]);
  };
  for (std::int64_t t = first; t < last; ++t) {
    const auto task = job.task(job.cut, t);
    if (job.way == cpu::FixedPointJob::Way::planes) {
      job.for_each_part(task, [&](std::int64_t c, std::int64_t chunk, std::int64_t begin,
                                  std::int64_t count, std::int64_t offset) {
        const std::byte* x = static_cast<const std::byte*>(source) + offset * kSize;
        // Vectors may reach past the part, but not past the source.
        if (offset + count + slack > job.readable) {
          std::memcpy(tile, x, static_cast<std::size_t>(count * kSize));
          x = tile;
        }
        tile_draws.fill_part(c, chunk * kFixedPointChunk + begin, count, draws);
        encode(x, draws, c, c - task.first_channel, chunk, begin, count);
      });
      continue;
    }
    for (std::int64_t begin = 0; begin < task.count; begin += job.piece) {
      auto piece = task;
      piece.begin += begin;
      piece.count = std::min(job.piece, task.count - begin);
      gather_tile<S>(job, piece, source, tile);
      tile_draws.fill(piece, some, draws);
      for (std::int64_t i = 0; i < task.channels; ++i) {
        encode(tile + i * stride * kSize, draws + i * stride, task.first_channel + i, i,
               task.begin / kFixedPointChunk, begin, piece.count);
      }
    }
  }
  return true;
}

/// Encodes tasks [first, last). `offsets` is indexed [chunk * channels + channel].
/// @return false when memory ran out
bool fixed_point_encode(const cpu::FixedPointJob& job, const void* source,
                        const ChannelFormat* formats, const std::int64_t* offsets, RandomKey key,
                        std::int64_t first, std::int64_t last, std::byte* out) {
  return with_element(job.what.type, [&](auto kind) {
    return encode_tasks<decltype(kind)>(job, source, formats, offsets, key, first, last, out);
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
