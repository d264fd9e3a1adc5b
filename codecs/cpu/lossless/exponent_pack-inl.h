// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_LOSSLESS_EXPONENT_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_LOSSLESS_EXPONENT_PACK_INL_H_
#undef CINCH_CODECS_CPU_LOSSLESS_EXPONENT_PACK_INL_H_
#else
#define CINCH_CODECS_CPU_LOSSLESS_EXPONENT_PACK_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codecs/cpu/bits-inl.h"
#include "codecs/cpu/lossless/pack_scratch.h"
#include "codecs/exponent_pack.h"
#include "codecs/with_pattern.h"
#include "hwy/highway.h"

/// One block of exponent_pack. T is the unsigned integer of an element's bits.
HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Scratch = cpu::PackScratch<T>;

template <typename T>
inline constexpr int kBits = 8 * sizeof(T);

/// Moves the bits of a vector of elements as rotate_left() and rotate_right() do.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V rotated_left(D /*d*/, V x) {
  return hn::Or(hn::Add(x, x), hn::ShiftRight<kBits<hn::TFromD<D>> - 1>(x));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V rotated_right(D /*d*/, V x) {
  return hn::Or(hn::ShiftRight<1>(x), hn::ShiftLeft<kBits<hn::TFromD<D>> - 1>(x));
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

/// Marks the first `count` lanes, or all. FirstN() may take larger counts than T can count for others.
template <class D>
HWY_INLINE hn::Mask<D> first_lanes(D d, int count) {
  return hn::FirstN(d, std::min(static_cast<std::size_t>(count), hn::Lanes(d)));
}

/// Calls f with a null pointer to the type of each part of an element's rest and the part's lowest
/// bit, in the order in which they are held.
template <typename T, class F>
HWY_INLINE void for_each_part(const F& f) {
  if constexpr (sizeof(T) == 8) {
    f(static_cast<std::uint32_t*>(nullptr), std::integral_constant<int, 0>());
  }
  if constexpr (sizeof(T) >= 4) {
    f(static_cast<std::uint16_t*>(nullptr), std::integral_constant<int, kBits<T> - 32>());
  }
  f(static_cast<std::uint8_t*>(nullptr), std::integral_constant<int, kBits<T> - 16>());
}

template <typename T>
HWY_INLINE int count_zeros(const T* x, int count) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  std::size_t zeros = 0;
  int k = 0;
  for (; k + lanes <= count; k += lanes) {
    zeros += hn::CountTrue(d, hn::Eq(hn::LoadU(d, x + k), zero));
  }
  for (; k < count; ++k) zeros += x[k] == 0 ? 1 : 0;
  return static_cast<int>(zeros);
}

/// How many elements of a block's sample have each top; zeros are left out.
template <typename T>
HWY_INLINE void count_tops(const T* x, int count, std::array<int, 256>& counts) {
  // Neighbours often have one top: four tables, so that no sum waits for the one before it.
  std::array<std::array<std::uint16_t, 256>, 4> tables = {};
  for (int stretch = 0; stretch * kPackStretch < count; ++stretch) {
    if (!is_sampled(stretch)) continue;
    const int end = std::min(count, (stretch + 1) * kPackStretch);
    for (int k = stretch * kPackStretch; k < end; ++k) {
      const auto top = static_cast<std::uint8_t>(rotate_left(x[k]) >> (kBits<T> - 8));
      tables[k % 4][top] += x[k] != 0 ? 1 : 0;
    }
  }
  for (int top = 0; top < 256; ++top) {
    counts[top] = tables[0][top] + tables[1][top] + tables[2][top] + tables[3][top];
  }
}

/// Chooses the base and bits that hold the sample in the fewest bits.
template <typename T>
HWY_INLINE void choose_codes(const T* x, int count, PackBlock& block) {
  std::array<int, 256> counts;
  count_tops(x, count, counts);
  std::array<int, 257> below;  // how many are in [0, top)
  below[0] = 0;
  for (int top = 0; top < 256; ++top) below[top + 1] = below[top] + counts[top];
  const int sampled = below[256];
  block.bits = 0;
  if (sampled == 0) return;
  int first = 0;
  int last = 255;
  while (counts[first] == 0) ++first;
  while (counts[last] == 0) --last;
  std::uint32_t least = pack_cost(0, sampled, 0);
  // No window costs less than its codes, nor is one without any of the tops worth anything.
  for (int bits = 1; bits <= kPackMaxBits && pack_cost(bits, sampled, sampled) < least; ++bits) {
    const int window = pack_window(bits);
    const int end = std::min(last, 256 - window);
    for (int base = std::max(0, first - window + 1); base <= end; ++base) {
      const std::uint32_t cost = pack_cost(bits, sampled, below[base + window] - below[base]);
      if (cost >= least) continue;
      least = cost;
      block.bits = static_cast<std::uint8_t>(bits);
      block.base = static_cast<std::uint8_t>(base);
    }
  }
}

/// Copies the non-zero elements to scratch.held and marks them in the mask. @return their number
template <typename T>
HWY_INLINE int leave_zeros_out(const T* x, int count, Scratch<T>& scratch) {
  int held = 0;
  for (int begin = 0; begin < count; begin += 64) {
    const int end = std::min(count, begin + 64);
    std::uint64_t word = 0;
    for (int k = begin; k < end; ++k) {
      const bool is_held = x[k] != 0;
      word |= std::uint64_t{is_held} << (k - begin);
      scratch.held[held] = x[k];
      held += is_held ? 1 : 0;
    }
    scratch.mask[begin / 64] = word;
  }
  return held;
}

/// The reverse: spreads scratch.held over `count` elements.
template <typename T>
HWY_INLINE void put_zeros_in(const Scratch<T>& scratch, int count, T* x) {
  const T* next = scratch.held.data();
  for (int begin = 0; begin < count; begin += 64) {
    const std::uint64_t word = scratch.mask[begin / 64];
    const int end = std::min(count, begin + 64);
    for (int k = begin; k < end; ++k) {
      const bool is_held = (word >> (k - begin) & 1U) != 0;
      x[k] = is_held ? *next : T{0};
      next += is_held ? 1 : 0;
    }
  }
}

/// Sets the tops and codes of the n elements at `held`. @return the number of escapes
template <typename T>
HWY_INLINE int find_codes(const T* held, int n, std::uint8_t base, std::uint8_t escape,
                          Scratch<T>& scratch) {
  const hn::ScalableTag<T> d;
  const hn::Rebind<std::uint8_t, decltype(d)> d_top;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  int k = 0;
  for (; k + lanes <= n; k += lanes) {
    const auto top = hn::ShiftRight<kBits<T> - 8>(rotated_left(d, hn::LoadU(d, held + k)));
    hn::StoreU(hn::TruncateTo(d_top, top), d_top, scratch.tops.data() + k);
  }
  for (; k < n; ++k) {
    scratch.tops[k] = static_cast<std::uint8_t>(rotate_left(held[k]) >> (kBits<T> - 8));
  }
  const hn::ScalableTag<std::uint8_t> d8;
  const auto bytes = static_cast<int>(hn::Lanes(d8));
  const auto of_escape = hn::Set(d8, escape);
  std::size_t escapes = 0;
  for (k = 0; k < n; k += bytes) {
    // Tops below the base wrap around to beyond the window.
    const auto distance = hn::Sub(hn::LoadU(d8, scratch.tops.data() + k), hn::Set(d8, base));
    const auto code = hn::Min(distance, of_escape);
    hn::StoreU(code, d8, scratch.codes.data() + k);
    const auto inside = first_lanes(d8, n - k);
    escapes += hn::CountTrue(d8, hn::And(hn::Eq(code, of_escape), inside));
  }
  return static_cast<int>(escapes);
}

/// Writes what the n elements at `held` have besides their tops.
template <typename T>
HWY_INLINE void write_rests(const T* held, int n, std::byte* out) {
  for_each_part<T>([&]<typename P, int bit>(P*, std::integral_constant<int, bit>) HWY_ATTR {
    const hn::ScalableTag<T> d;
    const hn::Rebind<P, decltype(d)> d_part;
    const auto lanes = static_cast<int>(hn::Lanes(d));
    auto* const part = reinterpret_cast<P*>(out);
    int k = 0;
    for (; k + lanes <= n; k += lanes) {
      const auto bits = hn::ShiftRight<bit>(rotated_left(d, hn::LoadU(d, held + k)));
      if constexpr (sizeof(P) == sizeof(T)) {
        hn::StoreU(bits, d, part + k);
      } else {
        hn::StoreU(hn::TruncateTo(d_part, bits), d_part, part + k);
      }
    }
    for (; k < n; ++k) {
      const auto bits = static_cast<P>(rotate_left(held[k]) >> bit);
      std::memcpy(part + k, &bits, sizeof(P));
    }
    out += n * int{sizeof(P)};
  });
}

/// Calls f(k) for each escape among the first n codes.
template <class F>
HWY_INLINE void for_each_escape(const std::uint8_t* codes, int n, std::uint8_t escape, const F& f) {
  const hn::ScalableTag<std::uint8_t> d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  HWY_ALIGN std::array<std::uint64_t, std::max<std::size_t>(HWY_MAX_BYTES / 64, 1)> words;
  for (int begin = 0; begin < n; begin += lanes) {
    const auto inside = first_lanes(d, n - begin);
    const auto found = hn::And(hn::Eq(hn::LoadU(d, codes + begin), hn::Set(d, escape)), inside);
    if (hn::AllFalse(d, found)) continue;
    words = {};
    hn::StoreMaskBits(d, found, reinterpret_cast<std::uint8_t*>(words.data()));
    for (std::size_t w = 0; w < words.size(); ++w) {
      for (std::uint64_t left = words[w]; left != 0; left &= left - 1) {
        f(begin + static_cast<int>(64 * w) + __builtin_ctzll(left));
      }
    }
  }
}

template <typename T>
HWY_INLINE PackBlock pack_block_of(const T* x, int count, Scratch<T>& scratch, std::byte* out) {
  constexpr int kSize = sizeof(T);
  PackBlock block;
  const bool leaves_out = leaves_zeros_out(count_zeros(x, count), count, kSize);
  block.form = leaves_out ? PackForm::nonzeros : PackForm::packed;
  choose_codes(x, count, block);
  const T* held = x;
  int n = count;
  if (leaves_out) {
    n = leave_zeros_out(x, count, scratch);
    held = scratch.held.data();
  }
  block.held = static_cast<std::uint16_t>(n);
  const auto escape = static_cast<std::uint8_t>(pack_window(block.bits));
  block.escapes = static_cast<std::uint16_t>(find_codes(held, n, block.base, escape, scratch));

  const PackSections packed(block, count, kSize);
  if (packed.size >= count * kSize) {
    block = {};
    const PackSections whole(block, count, kSize);
    std::memcpy(out, x, static_cast<std::size_t>(count) * kSize);
    std::memset(out + whole.end, 0, static_cast<std::size_t>(whole.size - whole.end));
    return block;
  }
  std::memcpy(out, scratch.mask.data(), static_cast<std::size_t>(packed.rests));
  write_rests(held, n, out + packed.rests);
  if (block.bits > 0) {
    const int groups = n / 8;
    std::byte* const codes = out + packed.codes;
    pack_codes(block.bits, scratch.codes.data(), groups, codes);
    pack_tail(block.bits, scratch.codes.data() + 8 * groups, n % 8, codes + groups * block.bits);
  }
  std::byte* next = out + packed.escapes;
  for_each_escape(scratch.codes.data(), n, escape,
                  [&](int k) HWY_ATTR { *next++ = static_cast<std::byte>(scratch.tops[k]); });
  std::memset(out + packed.end, 0, static_cast<std::size_t>(packed.size - packed.end));
  return block;
}

/// Encodes a block of `count` elements of `size` bytes to `out` and describes it; copies its
/// elements if that is no larger. Writes at most the elements' bytes, padded to a multiple of 8.
PackBlock pack_block(std::size_t size, const void* x, int count, void* scratch, std::byte* out) {
  return with_float_pattern(size, [&]<typename T>(T*) HWY_ATTR {
    return pack_block_of(static_cast<const T*>(x), count, *static_cast<Scratch<T>*>(scratch), out);
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
  for (int k = 0; k < n; k += lanes) {
    const auto code = hn::LoadU(d, codes + k);
    const auto inside = first_lanes(d, n - k);
    escapes += hn::CountTrue(d, hn::And(hn::Eq(code, hn::Set(d, escape)), inside));
    hn::StoreU(hn::Add(code, hn::Set(d, block.base)), d, scratch.tops.data() + k);
  }
  if (escapes != block.escapes) return false;
  const std::byte* next = in + at.escapes;
  for_each_escape(codes, n, escape, [&](int k) HWY_ATTR {
    scratch.tops[k] = std::to_integer<std::uint8_t>(*next++);
  });
  return true;
}

/// Joins tops and rests to elements.
template <typename T>
HWY_INLINE void join_parts(const std::byte* rests, int n, const std::uint8_t* tops, T* held) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  int k = 0;
  for (; k + lanes <= n; k += lanes) {
    auto bits = hn::ShiftLeft<kBits<T> - 8>(load_wider(d, tops + k));
    const std::byte* from = rests;
    for_each_part<T>([&]<typename P, int bit>(P*, std::integral_constant<int, bit>) HWY_ATTR {
      const auto part = load_wider(d, reinterpret_cast<const P*>(from) + k);
      bits = hn::Or(bits, hn::ShiftLeft<bit>(part));
      from += n * int{sizeof(P)};
    });
    hn::StoreU(rotated_right(d, bits), d, held + k);
  }
  for (; k < n; ++k) {
    auto bits = static_cast<T>(T{tops[k]} << (kBits<T> - 8));
    const std::byte* from = rests;
    for_each_part<T>([&]<typename P, int bit>(P*, std::integral_constant<int, bit>) HWY_ATTR {
      P part;
      std::memcpy(&part, from + k * int{sizeof(P)}, sizeof(P));
      bits = static_cast<T>(bits | T{part} << bit);
      from += n * int{sizeof(P)};
    });
    held[k] = rotate_right(bits);
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
    join_parts(rests, block.held, scratch.tops.data(), x);
    return true;
  }
  std::memcpy(scratch.mask.data(), in, static_cast<std::size_t>(at.rests));
  if (count % 64 != 0) scratch.mask[count / 64] &= (std::uint64_t{1} << (count % 64)) - 1;
  int held = 0;
  for (int word = 0; word < (count + 63) / 64; ++word) {
    held += __builtin_popcountll(scratch.mask[word]);
  }
  if (held != block.held) return false;
  join_parts(rests, held, scratch.tops.data(), scratch.held.data());
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
