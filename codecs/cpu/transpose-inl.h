// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_TRANSPOSE_INL_H_
#undef CINCH_CODECS_CPU_TRANSPOSE_INL_H_
#else
#define CINCH_CODECS_CPU_TRANSPOSE_INL_H_
#endif

#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Four rows of four 32-bit elements to four columns.
template <typename T, hwy::EnableIf<sizeof(T) == 4>* = nullptr>
HWY_INLINE void transpose_square(const T* HWY_RESTRICT in, std::int64_t in_stride,
                                 T* HWY_RESTRICT out, std::int64_t out_stride) {
  const hn::FixedTag<T, 4> d;
  const hn::Repartition<std::uint64_t, decltype(d)> d64;
  const auto row = [&](int i) { return hn::LoadU(d, in + i * in_stride); };
  const auto pairs = [&](auto v) { return hn::BitCast(d64, v); };
  const auto column = [&](int i, auto v) {
    hn::StoreU(hn::BitCast(d, v), d, out + i * out_stride);
  };
  const auto r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
  // As 64-bit integers, which interleave alike.
  const auto low01 = pairs(hn::InterleaveLower(d, r0, r1));
  const auto low23 = pairs(hn::InterleaveLower(d, r2, r3));
  const auto high01 = pairs(hn::InterleaveUpper(d, r0, r1));
  const auto high23 = pairs(hn::InterleaveUpper(d, r2, r3));
  column(0, hn::InterleaveLower(d64, low01, low23));
  column(1, hn::InterleaveUpper(d64, low01, low23));
  column(2, hn::InterleaveLower(d64, high01, high23));
  column(3, hn::InterleaveUpper(d64, high01, high23));
}

/// Eight rows of eight 16-bit elements to eight columns.
HWY_INLINE void transpose_square(const std::uint16_t* HWY_RESTRICT in, std::int64_t in_stride,
                                 std::uint16_t* HWY_RESTRICT out, std::int64_t out_stride) {
  const hn::FixedTag<std::uint16_t, 8> d;
  const hn::Repartition<std::uint32_t, decltype(d)> d32;
  const hn::Repartition<std::uint64_t, decltype(d)> d64;
  const auto low = [&](int i) {
    return hn::BitCast(d32, hn::InterleaveLower(d, hn::LoadU(d, in + i * in_stride),
                                                hn::LoadU(d, in + (i + 1) * in_stride)));
  };
  const auto high = [&](int i) {
    return hn::BitCast(d32, hn::InterleaveUpper(d, hn::LoadU(d, in + i * in_stride),
                                                hn::LoadU(d, in + (i + 1) * in_stride)));
  };
  const auto columns = [&](int i, auto v01, auto v23, auto v45, auto v67) {
    const auto store = [&](int j, auto v) {
      hn::StoreU(hn::BitCast(d, v), d, out + (i + j) * out_stride);
    };
    const auto front0 = hn::BitCast(d64, hn::InterleaveLower(d32, v01, v23));
    const auto front1 = hn::BitCast(d64, hn::InterleaveUpper(d32, v01, v23));
    const auto back0 = hn::BitCast(d64, hn::InterleaveLower(d32, v45, v67));
    const auto back1 = hn::BitCast(d64, hn::InterleaveUpper(d32, v45, v67));
    store(0, hn::InterleaveLower(d64, front0, back0));
    store(1, hn::InterleaveUpper(d64, front0, back0));
    store(2, hn::InterleaveLower(d64, front1, back1));
    store(3, hn::InterleaveUpper(d64, front1, back1));
  };
  columns(0, low(0), low(2), low(4), low(6));
  columns(4, high(0), high(2), high(4), high(6));
}

/// Element (r, c) of `rows` rows of `columns` elements at `in`, to element (c, r) at `out`.
/// T is uint16_t, uint32_t or float; strides count elements. Squares are done row by row of
/// squares, or column by column: whatever finishes the far-apart side's cache lines one after the
/// other.
template <bool kByRows, typename T>
HWY_INLINE void transpose(const T* HWY_RESTRICT in, std::int64_t in_stride, std::int64_t rows,
                          std::int64_t columns, T* HWY_RESTRICT out, std::int64_t out_stride) {
  constexpr std::int64_t kEdge = 16 / sizeof(T);
  const std::int64_t whole_rows = rows / kEdge * kEdge;
  const std::int64_t whole_columns = columns / kEdge * kEdge;
  const std::int64_t outer = kByRows ? whole_rows : whole_columns;
  const std::int64_t inner = kByRows ? whole_columns : whole_rows;
  // Rows far apart are more streams than the hardware foresees.
  constexpr std::int64_t kAhead = 32;
  const T* const far = kByRows ? in : out;
  const std::int64_t far_stride = kByRows ? in_stride : out_stride;
  for (std::int64_t o = 0; o < outer; o += kEdge) {
    if (o + kAhead + kEdge <= outer) {
      for (std::int64_t e = 0; e < kEdge; ++e) {
        for (std::int64_t i = 0; i < inner; i += 64 / std::int64_t(sizeof(T))) {
          hwy::Prefetch(far + (o + kAhead + e) * far_stride + i);
        }
      }
    }
    for (std::int64_t i = 0; i < inner; i += kEdge) {
      const std::int64_t r = kByRows ? o : i;
      const std::int64_t c = kByRows ? i : o;
      transpose_square(in + r * in_stride + c, in_stride, out + c * out_stride + r, out_stride);
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) {
      out[c * out_stride + r] = in[r * in_stride + c];
    }
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
