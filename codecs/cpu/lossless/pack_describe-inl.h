// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_LOSSLESS_PACK_DESCRIBE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_LOSSLESS_PACK_DESCRIBE_INL_H_
#undef CINCH_CODECS_CPU_LOSSLESS_PACK_DESCRIBE_INL_H_
#else
#define CINCH_CODECS_CPU_LOSSLESS_PACK_DESCRIBE_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "codecs/cpu/lossless/pack_elements-inl.h"
#include "codecs/formats/lossless/exponent_pack.h"
#include "codecs/with_pattern.h"
#include "hwy/highway.h"

/// Finds how one block of exponent_pack takes the fewest bytes. T is the unsigned integer of an
/// element's bits.
HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct ZeroBits {
  int zeros;    ///< how many elements are zeros
  bool halved;  ///< whether the lower half of all elements' bits is 0
};

template <typename T>
HWY_INLINE ZeroBits find_zero_bits(const T* x, int count) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  constexpr T kLower = static_cast<T>((T{1} << (kBits<T> / 2)) - 1);
  std::size_t zeros = 0;
  auto any = hn::Zero(d);
  int k = 0;
  for (; k + lanes <= count; k += lanes) {
    const auto bits = hn::LoadU(d, x + k);
    zeros += hn::CountTrue(d, hn::Eq(bits, hn::Zero(d)));
    any = hn::Or(any, bits);
  }
  bool halved = can_be_halved(sizeof(T)) &&
                hn::AllTrue(d, hn::Eq(hn::And(any, hn::Set(d, kLower)), hn::Zero(d)));
  for (; k < count; ++k) {
    zeros += x[k] == 0 ? 1 : 0;
    halved = halved && (x[k] & kLower) == 0;
  }
  return {static_cast<int>(zeros), halved};
}

/// How many elements, zeros among them, have a top without a code.
template <typename T>
HWY_INLINE int count_escapes(const T* x, int count, std::uint8_t base, std::uint8_t escape) {
  constexpr int kVectors = sizeof(T);
  const hn::ScalableTag<T> d;
  const hn::Repartition<std::uint8_t, decltype(d)> d8;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  std::size_t escapes = 0;
  int k = 0;
  for (; k + kVectors * lanes <= count; k += kVectors * lanes) {
    hn::Vec<decltype(d)> of[kVectors];
    for (int i = 0; i < kVectors; ++i) of[i] = hn::LoadU(d, x + k + i * lanes);
    const auto without_sign = [](auto /*d*/, auto pairs) HWY_ATTR { return hn::Add(pairs, pairs); };
    const auto tops = halve(
        d, of, [](auto, auto, int) {}, without_sign);
    const auto code = hn::Min(hn::Sub(tops, hn::Set(d8, base)), hn::Set(d8, escape));
    escapes += hn::CountTrue(d8, hn::Eq(code, hn::Set(d8, escape)));
  }
  for (; k < count; ++k) {
    escapes += static_cast<std::uint8_t>(top_of(x[k]) - base) >= escape ? 1 : 0;
  }
  return static_cast<int>(escapes);
}

/// Calls f(begin, end) for each stretch of a block's sample.
template <typename T, class F>
HWY_INLINE void for_each_sampled(const T* x, int count, const F& f) {
  for (int stretch = 0; stretch * kPackStretch < count; ++stretch) {
    if (!is_sampled(stretch)) continue;
    f(x + stretch * kPackStretch, x + std::min(count, (stretch + 1) * kPackStretch));
  }
}

/// How many elements of a block's sample have each top; zeros are left out.
template <typename T>
HWY_INLINE void count_tops(const T* x, int count, std::array<std::uint16_t, 256>& counts) {
  // Neighbours often have one top: four tables, so that no sum waits for the one before it.
  std::array<std::array<std::uint16_t, 256>, 4> tables = {};
  for_each_sampled(x, count, [&](const T* each, const T* end) {
    for (; each + 4 <= end; each += 4) {
      for (int i = 0; i < 4; ++i) ++tables[i][top_of(each[i])];
    }
    for (; each < end; ++each) ++tables[0][top_of(*each)];
  });
  for (int top = 0; top < 256; ++top) {
    counts[top] = static_cast<std::uint16_t>(tables[0][top] + tables[1][top] + tables[2][top] +
                                             tables[3][top]);
  }
  if (counts[0] == 0) return;
  for_each_sampled(x, count, [&](const T* begin, const T* end) {
    counts[0] = static_cast<std::uint16_t>(counts[0] - std::count(begin, end, T{0}));
  });
}

/// The first and the last top that has a count; false where none has.
HWY_INLINE bool find_range(const std::array<std::uint16_t, 256>& counts, int& first, int& last) {
  const hn::ScalableTag<std::uint16_t> d;
  std::array<std::uint64_t, 4> found = {};
  for (std::size_t top = 0; top < 256; top += hn::Lanes(d)) {
    const auto used = hn::Ne(hn::LoadU(d, counts.data() + top), hn::Zero(d));
    hn::StoreMaskBits(d, used, reinterpret_cast<std::uint8_t*>(found.data()) + top / 8);
  }
  const auto is_used = [](std::uint64_t word) { return word != 0; };
  const auto begin = std::find_if(found.begin(), found.end(), is_used);
  if (begin == found.end()) return false;
  const auto end = std::find_if(found.rbegin(), found.rend(), is_used).base();
  first = static_cast<int>(64 * (begin - found.begin())) + __builtin_ctzll(*begin);
  last = static_cast<int>(64 * (end - found.begin())) - 1 - __builtin_clzll(end[-1]);
  return true;
}

/// Chooses the base and bits that hold the sample in the fewest bits.
template <typename T>
HWY_INLINE void choose_codes(const T* x, int count, PackBlock& block) {
  std::array<std::uint16_t, 256> counts;
  count_tops(x, count, counts);
  block.bits = 0;
  int first;
  int last;
  if (!find_range(counts, first, last)) return;
  std::array<std::uint16_t, 257> below;  // how many are in [0, top)
  std::uint16_t sampled = 0;
  std::fill_n(below.begin(), first, sampled);
  for (int top = first; top <= last; ++top) {
    below[top] = sampled;
    sampled = static_cast<std::uint16_t>(sampled + counts[top]);
  }
  std::fill(below.begin() + last + 1, below.end(), sampled);
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

/// Describes the block of `count` elements at `x`.
template <typename T>
HWY_INLINE PackBlock describe_block_of(const T* x, int count) {
  PackBlock block;
  const auto [zeros, halved] = find_zero_bits(x, count);  // brings the block into the cache
  block.halved = halved ? 1 : 0;
  choose_codes(x, count, block);
  const auto escape = static_cast<std::uint8_t>(pack_window(block.bits));
  int escapes = count_escapes(x, count, block.base, escape);
  block.form = PackForm::packed;
  if (leaves_zeros_out(zeros, count, block.held_size(sizeof(T)))) {
    block.form = PackForm::nonzeros;
    const bool zero_escapes = static_cast<std::uint8_t>(0 - block.base) >= escape;
    if (zero_escapes) escapes -= zeros;
    count -= zeros;
  }
  block.held = static_cast<std::uint16_t>(count);
  block.escapes = static_cast<std::uint16_t>(escapes);
  return block;
}

/// Describes a block of `count` elements of `size` bytes: as its elements if nothing is smaller.
PackBlock describe_block(std::size_t size, const void* x, int count) {
  const PackBlock block = with_float_pattern(size, [&]<typename T>(T*) HWY_ATTR {
    return describe_block_of(static_cast<const T*>(x), count);
  });
  const bool pays =
      PackSections(block, count, static_cast<int>(size)).size < count * static_cast<int>(size);
  return pays ? block : PackBlock();
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
