// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_VECTORS_TRANSPOSE_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_VECTORS_TRANSPOSE_TILES_INL_H_
#undef CINCH_CODECS_CPU_VECTORS_TRANSPOSE_TILES_INL_H_
#else
#define CINCH_CODECS_CPU_VECTORS_TRANSPOSE_TILES_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "codecs/cpu/vectors/rotate_indices-inl.h"
#include "codecs/cpu/vectors/transpose-inl.h"
#include "codecs/layout.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Edge of the square tiles that are transposed in registers: a vector's lanes, but no more than
/// there are registers for, and 128 bits where wider vectors are slow to permute.
template <typename T>
inline constexpr std::size_t kTransposeEdge = HWY_ARCH_X86&& HWY_TARGET <= HWY_AVX3
                                                  ? std::min<std::size_t>(16, 64 / sizeof(T))
                                                  : 16 / sizeof(T);

/// Transposes one tile. An element's index is (row, column); rotating it by all bits of one swaps
/// the two. Prefetches as many rows at `ahead`, `stride` apart. Not inlined: compilers would keep
/// the products of all row numbers and strides, for which there are no registers.
template <typename T>
HWY_NOINLINE void transpose_tile(const T* HWY_RESTRICT from, std::int64_t from_stride,
                                 T* HWY_RESTRICT to, std::int64_t to_stride, const T* ahead,
                                 std::int64_t stride) {
  constexpr std::size_t n = kTransposeEdge<T>;
  const hn::CappedTag<T, n> d;
  using V = hn::Vec<decltype(d)>;
  V a[n], b[n];
  for (std::size_t i = 0; i < n; ++i) {
    hwy::Prefetch(ahead + static_cast<std::int64_t>(i) * stride);
    a[i] = hn::LoadU(d, from + static_cast<std::int64_t>(i) * from_stride);
  }
  constexpr int kSteps = n == 16 ? 4 : n == 8 ? 3 : n == 4 ? 2 : 1;
  rotate_indices(d, a, b);
  if constexpr (kSteps > 1) rotate_indices(d, b, a);
  if constexpr (kSteps > 2) rotate_indices(d, a, b);
  if constexpr (kSteps > 3) rotate_indices(d, b, a);
  for (std::size_t i = 0; i < n; ++i) {
    hn::StoreU(kSteps % 2 == 0 ? a[i] : b[i], d, to + static_cast<std::int64_t>(i) * to_stride);
  }
}

/// transpose for one size of elements.
template <typename T>
void transpose_as(const T* HWY_RESTRICT from, std::int64_t from_stride, std::int64_t rows,
                  std::int64_t columns, T* HWY_RESTRICT to, std::int64_t to_stride, bool by_rows) {
  constexpr auto n = static_cast<std::int64_t>(kTransposeEdge<T>);
  if (rows < n || columns < n) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) to[c * to_stride + r] = from[r * from_stride + c];
    }
    return;
  }
  const std::int64_t outer = by_rows ? rows : columns;
  const std::int64_t inner = by_rows ? columns : rows;
  // Last tiles overlap the ones before them.
  for (std::int64_t i = 0; i < outer; i += n) {
    i = std::min(i, outer - n);
    for (std::int64_t j = 0; j < inner; j += n) {
      j = std::min(j, inner - n);
      const std::int64_t r = by_rows ? i : j;
      const std::int64_t c = by_rows ? j : i;
      // The next rows of main memory are more streams than the hardware predicts.
      const T* const ahead =
          by_rows ? from + (r + n) * from_stride + c : to + (c + n) * to_stride + r;
      transpose_tile(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride,
                     ahead, by_rows ? from_stride : to_stride);
    }
  }
}

void transpose(std::size_t element_size, const void* from, std::int64_t from_stride,
               std::int64_t rows, std::int64_t columns, void* to, std::int64_t to_stride,
               bool by_rows) {
  with_pattern(element_size, [&]<typename T>(T*) {
    transpose_as(static_cast<const T*>(from), from_stride, rows, columns, static_cast<T*>(to),
                 to_stride, by_rows);
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
