// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_LOSSLESS_EXPONENT_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_LOSSLESS_EXPONENT_PACK_INL_H_
#undef CINCH_CODECS_CPU_LOSSLESS_EXPONENT_PACK_INL_H_
#else
#define CINCH_CODECS_CPU_LOSSLESS_EXPONENT_PACK_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codecs/cpu/lossless/pack_elements-inl.h"
#include "codecs/cpu/lossless/pack_scratch.h"
#include "codecs/cpu/vectors/bits-inl.h"
#include "codecs/formats/lossless/exponent_pack.h"
#include "codecs/with_pattern.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

/// Writes and reads one block of exponent_pack. T is the unsigned integer of an element's bits.
HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Scratch = cpu::PackScratch<T>;

/// What lower_sign() makes of a vector of elements' two upper bytes.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V lowered_sign(D d, V x) {
  static_assert(sizeof(hn::TFromD<D>) == 2);
  const auto top = hn::And(hn::Add(x, x), hn::Set(d, 0xFF00));
  const auto sign = hn::And(hn::ShiftRight<8>(x), hn::Set(d, 0x80));
  return hn::Or(hn::Or(top, sign), hn::And(x, hn::Set(d, 0x7F)));
}

/// Loads bytes, or other small integers, as lanes of D.
template <class D, typename P>
HWY_INLINE hn::Vec<D> load_wider(D d, const P* from) {
  if constexpr (sizeof(hn::TFromD<D>) == 8 && sizeof(P) < 4) {
    const hn::Rebind<std::uint32_t, D> half;
    return hn::PromoteTo(d, load_wider(half, from));
  } else {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<P, D>(), from));
  }
}

/// Calls f for each part that is held of an element's rest, with a null pointer to its type, its
/// lowest bit in the element, and where the part of all held elements begins.
template <typename T, class F>
HWY_INLINE void for_each_part(const PackBlock& block, const F& f) {
  constexpr int kLast = sizeof(T) - 2;
  if constexpr (can_be_halved(sizeof(T))) {
    if (block.halved == 0) {
      f(static_cast<Half<T>*>(nullptr), std::integral_constant<int, 0>(), 0);
    }
  }
  if constexpr (sizeof(T) == 8) {
    const int begin = block.halved != 0 ? 0 : 4 * block.held;
    f(static_cast<std::uint16_t*>(nullptr), std::integral_constant<int, 32>(), begin);
  }
  f(static_cast<std::uint8_t*>(nullptr), std::integral_constant<int, 8 * kLast>(),
    (block.held_size(sizeof(T)) - 2) * block.held);
}

/// For each set of eight lanes, as a mask: the lanes of the set in order, and which of these each
/// lane of the set is.
struct LaneMoves {
  std::uint8_t gather[256][8] = {};
  std::uint8_t spread[256][8] = {};

  constexpr LaneMoves() {
    for (unsigned set = 0; set < 256; ++set) {
      std::uint8_t held = 0;
      for (std::uint8_t lane = 0; lane < 8; ++lane) {
        if ((set >> lane & 1U) == 0) continue;
        gather[set][held] = lane;
        spread[set][lane] = held++;
      }
    }
  }
};
inline constexpr LaneMoves kLaneMoves;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V moved(D d, V x, const std::uint8_t (&lanes)[8]) {
  const auto indices = hn::PromoteTo(d, hn::LoadU(hn::Rebind<std::uint8_t, D>(), lanes));
  return hn::TableLookupLanes(x, hn::IndicesFromVec(d, indices));
}

/// Whether vectors move eight elements at once, and not single elements.
template <typename T>
inline constexpr bool kMovesEight = sizeof(T) == 4;

/// Copies the non-zero elements to scratch.held and marks them in the mask.
template <typename T>
HWY_INLINE void leave_zeros_out(const T* x, int count, Scratch<T>& scratch) {
  T* next = scratch.held.data();
  for (int begin = 0; begin < count; begin += 64) {
    const int end = std::min(count, begin + 64);
    std::uint64_t word = 0;
    int k = begin;
    if constexpr (kMovesEight<T>) {
      const hn::CappedTag<T, 8> d;
      for (; k + 8 <= end; k += 8) {
        const auto bits = hn::LoadU(d, x + k);
        std::uint8_t held;
        hn::StoreMaskBits(d, hn::Ne(bits, hn::Zero(d)), &held);
        hn::StoreU(moved(d, bits, kLaneMoves.gather[held]), d, next);
        next += __builtin_popcount(held);
        word |= std::uint64_t{held} << (k - begin);
      }
    }
    for (; k < end; ++k) {
      const bool is_held = x[k] != 0;
      word |= std::uint64_t{is_held} << (k - begin);
      *next = x[k];
      next += is_held ? 1 : 0;
    }
    scratch.mask[begin / 64] = word;
  }
}

/// The reverse: spreads scratch.held over `count` elements.
template <typename T>
HWY_INLINE void put_zeros_in(const Scratch<T>& scratch, int count, T* x) {
  const T* next = scratch.held.data();
  for (int begin = 0; begin < count; begin += 64) {
    std::uint64_t word = scratch.mask[begin / 64];
    const int end = std::min(count, begin + 64);
    int k = begin;
    if constexpr (kMovesEight<T>) {
      const hn::CappedTag<T, 8> d;
      for (; k + 8 <= end; k += 8, word >>= 8) {
        const auto held = static_cast<std::uint8_t>(word);
        const auto spread = moved(d, hn::LoadU(d, next), kLaneMoves.spread[held]);
        hn::StoreU(hn::IfThenElseZero(hn::LoadMaskBits(d, &held), spread), d, x + k);
        next += __builtin_popcount(held);
      }
    }
    for (; k < end; ++k, word >>= 1) {
      // No branch: which elements are zero can't be foretold.
      const auto is_held = static_cast<T>(word & 1U);
      x[k] = static_cast<T>(*next & (T{0} - is_held));
      next += is_held;
    }
  }
}

/// Parts a block's held elements into what they have besides their tops, written to `rests`, and
/// the tops and their codes.
template <typename T>
HWY_INLINE void part_elements(const T* held, const PackBlock& block, std::byte* rests,
                              Scratch<T>& scratch) {
  constexpr int kVectors = sizeof(T);
  const hn::ScalableTag<T> d;
  const hn::Repartition<std::uint8_t, decltype(d)> d8;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  const auto base = hn::Set(d8, block.base);
  const auto escape = hn::Set(d8, static_cast<std::uint8_t>(pack_window(block.bits)));
  const int n = block.held;
  const int left_out = kVectors - block.held_size(kVectors);  // bytes of an element
  int k = 0;
  for (; k + kVectors * lanes <= n; k += kVectors * lanes) {
    hn::Vec<decltype(d)> of[kVectors];
    for (int i = 0; i < kVectors; ++i) of[i] = hn::LoadU(d, held + k + i * lanes);
    const auto store = [&](auto half, auto lower, int i) HWY_ATTR {
      using P = hn::TFromD<decltype(half)>;
      // Wider parts lie before narrower ones: 4 + 2 + 1 bytes of an element.
      const int before = kVectors - 2 * int{sizeof(P)} - left_out;
      if (before < 0) return;
      auto* const part = reinterpret_cast<P*>(rests + n * before);
      hn::StoreU(lower, half, part + k + i * static_cast<int>(hn::Lanes(half)));
    };
    const auto tops =
        halve(d, of, store, [](auto d16, auto pairs) HWY_ATTR { return lowered_sign(d16, pairs); });
    hn::StoreU(tops, d8, scratch.tops.data() + k);
    hn::StoreU(hn::Min(hn::Sub(tops, base), escape), d8, scratch.codes.data() + k);
  }
  for (; k < n; ++k) {
    for_each_part<T>(block,
                     [&]<typename P, int bit>(P*, std::integral_constant<int, bit>, int begin) {
                       const auto bits = static_cast<P>(lower_sign(held[k]) >> bit);
                       std::memcpy(rests + begin + k * int{sizeof(P)}, &bits, sizeof(P));
                     });
    scratch.tops[k] = top_of(held[k]);
    scratch.codes[k] = static_cast<std::uint8_t>(std::min(
        static_cast<std::uint8_t>(scratch.tops[k] - block.base) + 0, pack_window(block.bits)));
  }
}

/// Calls f(k) for each escape among the first n codes.
template <class F>
HWY_INLINE void for_each_escape(const std::uint8_t* codes, int n, std::uint8_t escape, const F& f) {
  const hn::ScalableTag<std::uint8_t> d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  int begin = 0;
  for (; begin + lanes <= n; begin += lanes) {
    const auto found = hn::Eq(hn::LoadU(d, codes + begin), hn::Set(d, escape));
    if (hn::AllFalse(d, found)) continue;
    std::uint64_t left = 0;
    hn::StoreMaskBits(d, found, reinterpret_cast<std::uint8_t*>(&left));
    for (; left != 0; left &= left - 1) f(begin + __builtin_ctzll(left));
  }
  for (; begin < n; ++begin) {
    if (codes[begin] == escape) f(begin);
  }
}

/// Writes what `block` describes, PackSections::size bytes.
template <typename T>
HWY_INLINE void write_block_of(const PackBlock& block, const T* x, int count, Scratch<T>& scratch,
                               std::byte* out) {
  const PackSections at(block, count, sizeof(T));
  if (block.form == PackForm::whole) {
    std::memcpy(out, x, static_cast<std::size_t>(at.end));
  } else {
    const int n = block.held;
    const T* held = x;
    if (block.form == PackForm::nonzeros) {
      leave_zeros_out(x, count, scratch);
      held = scratch.held.data();
      std::memcpy(out, scratch.mask.data(), static_cast<std::size_t>(at.rests));
    }
    part_elements(held, block, out + at.rests, scratch);
    if (block.bits > 0) {
      const int groups = n / 8;
      std::byte* const codes = out + at.codes;
      pack_codes(block.bits, scratch.codes.data(), groups, codes);
      pack_tail(block.bits, scratch.codes.data() + 8 * groups, n % 8, codes + groups * block.bits);
    }
    std::byte* next = out + at.escapes;
    std::byte* const end = out + at.end;  // holds even if a program changes elements meanwhile
    for_each_escape(scratch.codes.data(), n, static_cast<std::uint8_t>(pack_window(block.bits)),
                    [&](int k) HWY_ATTR {
                      if (next != end) *next++ = static_cast<std::byte>(scratch.tops[k]);
                    });
  }
  std::memset(out + at.end, 0, static_cast<std::size_t>(at.size - at.end));
}

/// Writes a block of which describe_block() gave the description.
void write_block(std::size_t size, const PackBlock& block, const void* x, int count, void* scratch,
                 std::byte* out) {
  with_float_pattern(size, [&]<typename T>(T*) HWY_ATTR {
    write_block_of(block, static_cast<const T*>(x), count, *static_cast<Scratch<T>*>(scratch), out);
  });
}

/// Sets the tops of a block's held elements. @return false when the number of escapes contradicts
/// the block's
template <typename T>
HWY_INLINE bool read_tops(const PackBlock& block, const PackSections& at, const std::byte* in,
                          Scratch<T>& scratch) {
  const int n = block.held;
  const auto escape = static_cast<std::uint8_t>(pack_window(block.bits));
  const std::uint8_t* codes = scratch.codes.data();
  if (block.bits == 0) {
    scratch.codes.fill(0);
  } else {
    codes = unpack_codes(block.bits, in + at.codes, at.size - at.codes, 0, n, scratch.codes.data());
  }
  const hn::ScalableTag<std::uint8_t> d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  std::size_t escapes = 0;
  int k = 0;
  for (; k + lanes <= n; k += lanes) {
    const auto code = hn::LoadU(d, codes + k);
    escapes += hn::CountTrue(d, hn::Eq(code, hn::Set(d, escape)));
    hn::StoreU(hn::Add(code, hn::Set(d, block.base)), d, scratch.tops.data() + k);
  }
  for (; k < n; ++k) {
    escapes += codes[k] == escape ? 1 : 0;
    scratch.tops[k] = static_cast<std::uint8_t>(codes[k] + block.base);
  }
  if (escapes != block.escapes) return false;
  const std::byte* next = in + at.escapes;
  for_each_escape(codes, n, escape, [&](int k) HWY_ATTR {
    scratch.tops[k] = std::to_integer<std::uint8_t>(*next++);
  });
  return true;
}

/// Joins the tops and rests of a block's held elements.
/// @param next The block that is read after this one, fetched meanwhile: its parts are too short
/// for the processor to foresee. Need not be readable.
template <typename T>
HWY_INLINE void join_parts(const PackBlock& block, const std::byte* rests, const std::uint8_t* tops,
                           const std::byte* next, T* held) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  const int n = block.held;
  int k = 0;
  for (; k + lanes <= n; k += lanes) {
    hwy::Prefetch(next + k * int{sizeof(T)});
    auto bits = hn::ShiftLeft<kBits<T> - 9>(load_wider(d, tops + k));
    for_each_part<T>(
        block, [&]<typename P, int bit>(P*, std::integral_constant<int, bit>, int begin) HWY_ATTR {
          const auto part = load_wider(d, reinterpret_cast<const P*>(rests + begin) + k);
          if constexpr (sizeof(P) > 1) {
            bits = hn::Or(bits, hn::ShiftLeft<bit>(part));
          } else {  // 7 bits, and the sign above them
            bits = hn::Or(bits, hn::ShiftLeft<bit>(hn::And(part, hn::Set(d, 0x7F))));
            bits = hn::Or(bits, hn::ShiftLeft<kBits<T> - 1>(hn::ShiftRight<7>(part)));
          }
        });
    hn::StoreU(bits, d, held + k);
  }
  for (; k < n; ++k) {
    auto bits = static_cast<T>(T{tops[k]} << (kBits<T> - 8));
    for_each_part<T>(
        block, [&]<typename P, int bit>(P*, std::integral_constant<int, bit>, int begin) HWY_ATTR {
          P part;
          std::memcpy(&part, rests + begin + k * int{sizeof(P)}, sizeof(P));
          bits = static_cast<T>(bits | T{part} << bit);
        });
    held[k] = raise_sign(bits);
  }
}

template <typename T>
HWY_INLINE bool unpack_block_of(const PackBlock& block, const std::byte* in, int count,
                                Scratch<T>& scratch, T* x) {
  const PackSections at(block, count, sizeof(T));
  if (block.form == PackForm::whole) {
    std::memcpy(x, in, static_cast<std::size_t>(count) * sizeof(T));
    return true;
  }
  if (!read_tops(block, at, in, scratch)) return false;
  const std::byte* const rests = in + at.rests;
  if (block.form == PackForm::packed) {
    join_parts(block, rests, scratch.tops.data(), in + at.size, x);
    return true;
  }
  std::memcpy(scratch.mask.data(), in, static_cast<std::size_t>(at.rests));
  if (count % 64 != 0) scratch.mask[count / 64] &= (std::uint64_t{1} << (count % 64)) - 1;
  int held = 0;
  for (int word = 0; word < (count + 63) / 64; ++word) {
    held += __builtin_popcountll(scratch.mask[word]);
  }
  if (held != block.held) return false;
  join_parts(block, rests, scratch.tops.data(), in + at.size, scratch.held.data());
  put_zeros_in(scratch, count, x);
  return true;
}

/// Decodes a block. @return false when it contradicts its description
/// @pre `in` has the bytes of a block that is_pack_block() found good
bool unpack_block(std::size_t size, const PackBlock& block, const std::byte* in, int count,
                  void* scratch, void* x) {
  return with_float_pattern(size, [&]<typename T>(T*) HWY_ATTR {
    return unpack_block_of(block, in, count, *static_cast<Scratch<T>*>(scratch),
                           static_cast<T*>(x));
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
