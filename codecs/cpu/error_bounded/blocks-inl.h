// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_ERROR_BOUNDED_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_ERROR_BOUNDED_BLOCKS_INL_H_
#undef CINCH_CODECS_CPU_ERROR_BOUNDED_BLOCKS_INL_H_
#else
#define CINCH_CODECS_CPU_ERROR_BOUNDED_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codecs/cpu/error_bounded/bound-inl.h"
#include "codecs/element_bits.h"
#include "codecs/error_bounded.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Vectors of floats that fill a block together, and of its codes' bytes.
using BlockFloats = hn::CappedTag<float, kBlockElements>;
using BlockBytes = hn::CappedTag<std::uint8_t, kBlockElements>;

/// Planes are made and read a byte of each code at a time, whether all are wanted or not.
inline constexpr int kBytePlanes = 8;
/// What reading a block touches at most: signs, halves and three times kBytePlanes.
inline constexpr std::int64_t kBlockReach = 4 * (2 + 3 * kBytePlanes);

template <ElementType type>
inline constexpr auto kElementSize = static_cast<std::int64_t>(sizeof(ElementBits<type>));

/// A block's codes: the coarse lattice's, or the fine one's as (|code| + 1) / 2 and |code| % 2.
struct BlockCodes {
  HWY_ALIGN std::uint32_t codes[kBlockElements];  ///< in the low 23 bits
  HWY_ALIGN std::uint8_t low[kBlockElements];     ///< their low bytes
  std::uint32_t signs;
  std::uint32_t halves;
  int planes;
  bool is_coarse;  ///< the coarse lattice holds every element
  bool is_held;    ///< one of the two does
};

/// Stores a vector of codes below 2^23; of others, anything.
template <class DF, class VF = hn::Vec<DF>>
HWY_INLINE void store_codes(DF df, VF code, std::int64_t i, BlockCodes& block) {
  const hn::RebindToUnsigned<DF> du;
  const hn::Rebind<std::uint8_t, DF> d8;
  // The low bits of the sum are the integer.
  const auto bits = hn::BitCast(du, hn::Add(code, hn::Set(df, 0x1p23F)));
  hn::Store(bits, du, block.codes + i);
  hn::StoreU(hn::TruncateTo(d8, bits), d8, block.low + i);
}

/// The number of bits of the largest of integers >= 0.
template <class DF, class VF = hn::Vec<DF>>
HWY_INLINE int planes_of(DF df, VF largest) {
  // The exponent tells.
  const std::uint32_t bits = float_bits(hn::GetLane(hn::MaxOfLanes(df, largest)));
  return std::max(0, static_cast<int>(bits >> 23) - 126);
}

/// Bit i: whether element i has its sign bit set.
template <ElementType type>
HWY_INLINE std::uint32_t sign_plane(const std::byte* HWY_RESTRICT x) {
  using Bits = ElementBits<type>;
  const hn::CappedTag<Bits, kBlockElements> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::uint32_t plane = 0;
  for (std::int64_t i = 0; i < kBlockElements; i += lanes) {
    const auto bits = hn::LoadU(d, reinterpret_cast<const Bits*>(x) + i);
    plane |= bits_of_mask(d, hn::Lt(bits, hn::Zero(d))) << i;
  }
  return plane;
}

/// Codes on the coarse lattice or the fine one, whether it holds them or not.
/// @return whether it does
template <ElementType type, bool is_regular, bool is_fine>
HWY_INLINE bool quantize_block(const ErrorBound& bound, const std::byte* HWY_RESTRICT x,
                               BlockCodes& block) {
  const BlockFloats df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  const auto zero = hn::Zero(df);
  const auto scale = hn::Set(df, bound.lattice(is_fine).scale);
  const auto step = hn::Set(df, bound.lattice(is_fine).step);
  const auto limit = hn::Set(df, bound.limit);
  auto held = hn::Eq(zero, zero);
  auto largest = zero;
  std::uint32_t halves = 0;
  for (std::int64_t i = 0; i < kBlockElements; i += lanes) {
    const auto magnitude = hn::Abs(load_elements<type>(df, x + i * kElementSize<type>));
    auto code = lanes_code<is_regular>(df, magnitude, scale);
    held = hn::And(held, lanes_are_near<type, is_regular>(df, magnitude, code, step, limit));
    largest = hn::Max(largest, code);
    if constexpr (is_fine) {
      const auto whole = hn::Ceil(hn::Mul(code, hn::Set(df, 0.5F)));
      halves |= bits_of_mask(df, hn::Ne(code, hn::Add(whole, whole))) << i;
      code = whole;
    }
    store_codes(df, code, i, block);
  }
  block.halves = halves;
  block.planes = planes_of(df, is_fine ? hn::Ceil(hn::Mul(largest, hn::Set(df, 0.5F))) : largest);
  // A code above kMaxCode has more bits. NaNs are near nothing.
  return hn::AllTrue(df, held) && block.planes <= kMaxPlanes - (is_fine ? 1 : 0);
}

/// Tries both lattices at once: 16-bit types need the fine one so often that to foresee it fails.
/// It holds whatever is finite and has a code below kMaxCode. @pre bound.is_regular
template <ElementType type>
HWY_INLINE void quantize_block_twice(const ErrorBound& bound, const std::byte* HWY_RESTRICT x,
                                     BlockCodes& block) {
  const BlockFloats df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  const auto zero = hn::Zero(df);
  const auto half = hn::Set(df, 0.5F);
  const auto scale = hn::Set(df, bound.fine.scale);
  const auto step = hn::Set(df, bound.coarse.step);
  const auto limit = hn::Set(df, bound.limit);
  const auto max_code = hn::Set(df, kMaxCode);
  auto held = hn::Eq(zero, zero);
  auto fits = held;
  auto largest = zero;
  std::uint32_t halves = 0;
  for (std::int64_t i = 0; i < kBlockElements; i += lanes) {
    const auto magnitude = hn::Abs(load_elements<type>(df, x + i * kElementSize<type>));
    const auto fine = lanes_code<true>(df, magnitude, scale);
    const auto code = hn::Ceil(hn::Mul(fine, half));
    held = hn::And(held, lanes_are_near<type, true>(df, magnitude, code, step, limit));
    fits = hn::And(fits, hn::Le(fine, max_code));
    halves |= bits_of_mask(df, hn::Ne(fine, hn::Add(code, code))) << i;
    largest = hn::Max(largest, code);
    store_codes(df, code, i, block);
  }
  block.halves = halves;
  block.planes = planes_of(df, largest);
  block.is_coarse = hn::AllTrue(df, held) & (block.planes <= kMaxPlanes);
  block.is_held = block.is_coarse | (bound.has_fine & hn::AllTrue(df, fits));
}

/// Plane `bit` of 32 bytes.
HWY_INLINE std::uint32_t plane_of(const std::uint8_t* HWY_RESTRICT bytes, int bit) {
  const BlockBytes d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d8));
  const auto one = hn::Set(d8, static_cast<std::uint8_t>(1U << bit));
  std::uint32_t plane = 0;
  for (std::int64_t i = 0; i < kBlockElements; i += lanes) {
    plane |= bits_of_mask(d8, hn::TestBit(hn::Load(d8, bytes + i), one)) << i;
  }
  return plane;
}

HWY_INLINE void write_byte_planes(const std::uint8_t* HWY_RESTRICT bytes, int count,
                                  std::byte* HWY_RESTRICT out) {
  for (int bit = 0; bit < count; ++bit) {
    const std::uint32_t plane = plane_of(bytes, bit);
    std::memcpy(out + 4 * bit, &plane, 4);
  }
}

/// Writes a coded block, and perhaps noise behind it, but no further than 32 elements reach.
template <ElementType type>
HWY_INLINE void write_block(const BlockCodes& block, std::byte* HWY_RESTRICT out) {
  std::memcpy(out, &block.signs, 4);
  out += block.signs != 0 ? 4 : 0;
  std::memcpy(out, &block.halves, 4);
  out += block.is_coarse ? 0 : 4;
  write_byte_planes(block.low, kBytePlanes, out);
  if (HWY_LIKELY(block.planes <= kBytePlanes)) return;

  const hn::CappedTag<std::uint32_t, kBlockElements> du;
  const hn::Rebind<std::uint8_t, decltype(du)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(du));
  HWY_ALIGN std::uint8_t bytes[kBlockElements];
  for (int first = kBytePlanes; first < block.planes; first += kBytePlanes) {
    for (std::int64_t i = 0; i < kBlockElements; i += lanes) {
      const auto codes = hn::Load(du, block.codes + i);
      hn::StoreU(hn::TruncateTo(d8, hn::ShiftRightSame(codes, first)), d8, bytes + i);
    }
    // 32 elements of 16 bits have no room for planes that are not needed.
    const int count =
        kElementSize<type> == 4 ? kBytePlanes : std::min(kBytePlanes, block.planes - first);
    write_byte_planes(bytes, count, out + 4 * first);
  }
}

/// Blocks are quantized some at a time, and written after: what one vector stores is loaded by
/// vectors of another width, which takes long before it has left the store buffer.
inline constexpr std::int64_t kBatchBlocks = 16;

template <ElementType type, bool is_regular>
HWY_INLINE void quantize_batch(const ErrorBound& bound, const std::byte* HWY_RESTRICT x,
                               std::int64_t count, BlockCodes* HWY_RESTRICT blocks) {
  for (std::int64_t b = 0; b < count; ++b, x += kBlockElements * kElementSize<type>) {
    BlockCodes& block = blocks[b];
    block.signs = sign_plane<type>(x);
    if constexpr (kElementSize<type> == 2 && is_regular) {
      quantize_block_twice<type>(bound, x, block);
    } else {
      block.is_held = quantize_block<type, is_regular, false>(bound, x, block);
      block.is_coarse = block.is_held;
      if (HWY_UNLIKELY(!block.is_held)) {
        block.is_held = quantize_block<type, is_regular, true>(bound, x, block) && bound.has_fine;
      }
    }
  }
}

/// Writes blocks at `out` and their rates. @pre room for as many elements there
/// @return the end of what is written
template <ElementType type>
HWY_INLINE std::byte* write_batch(const BlockCodes* HWY_RESTRICT blocks,
                                  const std::byte* HWY_RESTRICT x, std::int64_t count,
                                  std::byte* HWY_RESTRICT rates, std::byte* HWY_RESTRICT out) {
  constexpr std::int64_t kSize = kElementSize<type>;
  for (std::int64_t b = 0; b < count; ++b) {
    const BlockCodes& block = blocks[b];
    const unsigned rate = block.is_held
                              ? block_rate(block.planes, block.signs != 0, !block.is_coarse, kSize)
                              : kRawRate;
    if (HWY_LIKELY(rate != kRawRate)) {
      write_block<type>(block, out);
    } else {
      std::memcpy(out, x + b * kBlockElements * kSize, kBlockElements * kSize);
    }
    rates[b] = static_cast<std::byte>(rate);
    out += block_bytes(rate, kSize);
  }
  return out;
}

template <ElementType type, bool is_regular>
HWY_INLINE std::int64_t encode_blocks_as(const ErrorBound& bound, const std::byte* HWY_RESTRICT x,
                                         std::int64_t count, std::byte* HWY_RESTRICT rates,
                                         std::byte* HWY_RESTRICT out) {
  constexpr std::int64_t kBytes = kBlockElements * kElementSize<type>;
  BlockCodes blocks[kBatchBlocks];
  std::byte* next = out;
  const std::int64_t whole = count / kBlockElements;
  for (std::int64_t b = 0; b < whole; b += kBatchBlocks) {
    const std::int64_t some = std::min(kBatchBlocks, whole - b);
    quantize_batch<type, is_regular>(bound, x + b * kBytes, some, blocks);
    next = write_batch<type>(blocks, x + b * kBytes, some, rates + b, next);
  }
  if (count % kBlockElements != 0) {
    std::byte rest[kBytes] = {};
    std::memcpy(rest, x + whole * kBytes, count % kBlockElements * kElementSize<type>);
    quantize_batch<type, is_regular>(bound, rest, 1, blocks);
    next = write_batch<type>(blocks, rest, 1, rates + whole, next);
  }
  return next - out;
}

/// Encodes `count` elements, whole blocks but for the source's last one, to `out` and their rates
/// to `rates`. @return the bytes written, which the blocks' own bytes have room for
std::int64_t encode_blocks(const ErrorBound& bound, const std::byte* HWY_RESTRICT x,
                           std::int64_t count, std::byte* HWY_RESTRICT rates,
                           std::byte* HWY_RESTRICT out) {
  return with_type(bound.type, [&](auto type) {
    return bound.is_regular ? encode_blocks_as<type.value, true>(bound, x, count, rates, out)
                            : encode_blocks_as<type.value, false>(bound, x, count, rates, out);
  });
}

/// Bytes whose bit i is plane i's, from kBytePlanes planes at `in`, of which `planes` count.
HWY_INLINE void join_planes(const std::byte* HWY_RESTRICT in, int planes,
                            std::uint8_t* HWY_RESTRICT bytes) {
  const BlockBytes d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d8));
  const auto mask =
      hn::Set(d8, static_cast<std::uint8_t>((1U << std::min(planes, kBytePlanes)) - 1));
  for (std::int64_t i = 0; i < kBlockElements; i += lanes) {
    auto joined = hn::Zero(d8);
    for (int bit = 0; bit < kBytePlanes; ++bit) {
      std::uint32_t plane;
      std::memcpy(&plane, in + 4 * bit, 4);
      const auto one = hn::Set(d8, static_cast<std::uint8_t>(1U << bit));
      joined = hn::Or(joined, hn::IfThenElseZero(mask_of_bits(d8, plane >> i), one));
    }
    hn::Store(hn::And(joined, mask), d8, bytes + i);
  }
}

/// Values of the codes that `byte_count` planes of bytes make up. May be fine: is_fine may be true,
/// and `halves` counts then.
template <ElementType type, bool may_be_fine, int byte_count>
HWY_INLINE void write_values(const ErrorBound& bound, bool is_fine, std::uint32_t signs,
                             std::uint32_t halves, const std::uint8_t (&bytes)[3][kBlockElements],
                             std::byte* HWY_RESTRICT x) {
  const BlockFloats df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<std::uint8_t, decltype(df)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  const auto step = hn::Set(df, bound.lattice(is_fine).step);
  const auto factor = hn::Set(df, is_fine ? 2.0F : 1.0F);
  for (std::int64_t i = 0; i < kBlockElements; i += lanes) {
    auto codes = hn::PromoteTo(di, hn::LoadU(d8, bytes[0] + i));
    for (int b = 1; b < byte_count; ++b) {
      codes = hn::Or(codes, hn::ShiftLeftSame(hn::PromoteTo(di, hn::LoadU(d8, bytes[b] + i)),
                                              b * kBytePlanes));
    }
    const auto is_zero = hn::RebindMask(df, hn::Eq(codes, hn::Zero(di)));
    auto code = hn::ConvertTo(df, codes);
    if constexpr (may_be_fine) {
      const auto half = hn::IfThenElseZero(mask_of_bits(df, halves >> i), hn::Set(df, 1.0F));
      code = hn::Sub(hn::Mul(code, factor), half);
    }
    const auto magnitude = hn::IfThenZeroElse(is_zero, lanes_point(df, code, step));
    const auto sign = hn::IfThenElseZero(mask_of_bits(df, signs >> i), hn::SignBit(df));
    store_elements<type>(df, hn::Or(magnitude, sign), x + i * kElementSize<type>);
  }
}

/// A coded block, on the coarse lattice unless it may be on the fine one.
template <ElementType type, bool may_be_fine>
HWY_INLINE void read_block(const ErrorBound& bound, unsigned rate, const std::byte* HWY_RESTRICT in,
                           std::byte* HWY_RESTRICT x) {
  const bool has_signs = (rate & kRateSigns) != 0;
  std::uint32_t signs;
  std::memcpy(&signs, in, 4);
  signs = has_signs ? signs : 0;
  in += has_signs ? 4 : 0;
  bool is_fine = false;
  std::uint32_t halves = 0;
  if constexpr (may_be_fine) {
    is_fine = (rate & kRateHalves) != 0;
    std::memcpy(&halves, in, 4);
    halves = is_fine ? halves : 0;
    in += is_fine ? 4 : 0;
  }
  const auto planes = static_cast<int>(rate & kRatePlanes);
  const auto write = [&](auto byte_count, const auto& bytes) {
    write_values<type, may_be_fine, byte_count()>(bound, is_fine, signs, halves, bytes, x);
  };
  HWY_ALIGN std::uint8_t bytes[3][kBlockElements];
  join_planes(in, planes, bytes[0]);
  if (HWY_LIKELY(planes <= kBytePlanes)) return write(std::integral_constant<int, 1>(), bytes);
  join_planes(in + 4 * kBytePlanes, planes - kBytePlanes, bytes[1]);
  if (HWY_LIKELY(planes <= 2 * kBytePlanes)) return write(std::integral_constant<int, 2>(), bytes);
  join_planes(in + 8 * kBytePlanes, planes - 2 * kBytePlanes, bytes[2]);
  write(std::integral_constant<int, 3>(), bytes);
}

/// One block. @pre is_rate(rate), and kBlockReach bytes or the block's own if those are more are
/// readable at `in`
template <ElementType type>
HWY_INLINE void decode_block(const ErrorBound& bound, unsigned rate,
                             const std::byte* HWY_RESTRICT in, std::byte* HWY_RESTRICT x) {
  if (HWY_UNLIKELY(rate == kRawRate)) {
    std::memcpy(x, in, kBlockElements * kElementSize<type>);
  } else if (kElementSize<type> == 2 || HWY_UNLIKELY((rate & kRateHalves) != 0)) {
    read_block<type, true>(bound, rate, in, x);
  } else {
    read_block<type, false>(bound, rate, in, x);
  }
}

template <ElementType type>
HWY_INLINE bool decode_blocks_as(const ErrorBound& bound, const std::byte* HWY_RESTRICT rates,
                                 const std::byte* HWY_RESTRICT in, std::int64_t size,
                                 std::int64_t skipped, std::int64_t count,
                                 std::byte* HWY_RESTRICT x) {
  constexpr std::int64_t kSize = kElementSize<type>;
  for (std::int64_t b = 0; count > 0; ++b) {
    const auto rate = std::to_integer<unsigned>(rates[b]);
    if (HWY_UNLIKELY(!is_rate(rate))) return false;
    const std::int64_t bytes = block_bytes(rate, kSize);
    if (HWY_UNLIKELY(bytes > size)) return false;
    const std::int64_t some = std::min(count, kBlockElements - skipped);
    // The last blocks are copied to where more can be read than they have.
    std::byte padded[std::max(kBlockElements * kSize, kBlockReach)];
    std::byte all[kBlockElements * kSize];
    const bool is_whole = some == kBlockElements;
    const std::byte* from = in;
    if (HWY_UNLIKELY(size < kBlockReach)) {
      std::memset(padded, 0, sizeof padded);
      std::memcpy(padded, in, bytes);
      from = padded;
    }
    decode_block<type>(bound, rate, from, is_whole ? x : all);
    if (!is_whole) std::memcpy(x, all + skipped * kSize, some * kSize);
    in += bytes;
    size -= bytes;
    x += some * kSize;
    count -= some;
    skipped = 0;
  }
  return true;
}

/// Decodes `count` elements, of which the first is element `skipped` of the block that `rates` and
/// `in` begin with. `size` bytes are readable at `in`.
/// @return false when a rate is none, or the blocks need more bytes than there are
bool decode_blocks(const ErrorBound& bound, bool only_signs, const std::byte* HWY_RESTRICT rates,
                   const std::byte* HWY_RESTRICT in, std::int64_t size, std::int64_t skipped,
                   std::int64_t count, std::byte* HWY_RESTRICT x) {
  return with_type(bound.type, [&](auto type) {
    if (!decode_blocks_as<type.value>(bound, rates, in, size, skipped, count, x)) return false;
    if (only_signs) keep_signs<type.value>(x, count);
    return true;
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
