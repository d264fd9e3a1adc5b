// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_DCT_TRANSFORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_DCT_TRANSFORM_INL_H_
#undef CINCH_CODECS_CPU_DCT_TRANSFORM_INL_H_
#else
#define CINCH_CODECS_CPU_DCT_TRANSFORM_INL_H_
#endif

#include <cstdint>

#include "codecs/codec.h"
#include "codecs/cpu/dct/job.h"
#include "codecs/cpu/inline_lambda.h"
#include "codecs/cpu/vectors/float_formats-inl.h"
#include "codecs/cpu/vectors/transpose-inl.h"
#include "codecs/formats/dct.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// At most two blocks wide.
using DctTag = hn::CappedTag<float, 16>;
using DctVec = hn::Vec<DctTag>;

/// Eight rows of a block, or of some blocks side by side.
struct DctRows {
  DctVec r0, r1, r2, r3, r4, r5, r6, r7;

  HWY_INLINE void load(const float* HWY_RESTRICT from, std::int64_t stride) {
    const DctTag d;
    r0 = hn::LoadU(d, from);
    r1 = hn::LoadU(d, from + stride);
    r2 = hn::LoadU(d, from + 2 * stride);
    r3 = hn::LoadU(d, from + 3 * stride);
    r4 = hn::LoadU(d, from + 4 * stride);
    r5 = hn::LoadU(d, from + 5 * stride);
    r6 = hn::LoadU(d, from + 6 * stride);
    r7 = hn::LoadU(d, from + 7 * stride);
  }
  /// Calls f(row number, row) for each row.
  template <class F>
  HWY_INLINE void for_each(const F& f) {
    f(0, r0), f(1, r1), f(2, r2), f(3, r3), f(4, r4), f(5, r5), f(6, r6), f(7, r7);
  }
};

/// dct8 of every lane, along the rows.
HWY_INLINE void dct_forward(DctRows& x) {
  const DctTag d;
  const auto times = [&](DctVec v, int n)
                         CINCH_INLINE_LAMBDA { return hn::Mul(v, hn::Set(d, kDctCos[n])); };
  const auto s0 = hn::Add(x.r0, x.r7), d0 = hn::Sub(x.r0, x.r7);
  const auto s1 = hn::Add(x.r1, x.r6), d1 = hn::Sub(x.r1, x.r6);
  const auto s2 = hn::Add(x.r2, x.r5), d2 = hn::Sub(x.r2, x.r5);
  const auto s3 = hn::Add(x.r3, x.r4), d3 = hn::Sub(x.r3, x.r4);
  const auto e0 = hn::Add(s0, s3), e1 = hn::Add(s1, s2);
  const auto e2 = hn::Sub(s0, s3), e3 = hn::Sub(s1, s2);
  x.r0 = times(hn::Add(e0, e1), 4);
  x.r4 = times(hn::Sub(e0, e1), 4);
  x.r2 = hn::Add(times(e2, 2), times(e3, 6));
  x.r6 = hn::Sub(times(e2, 6), times(e3, 2));
  x.r1 = hn::Add(hn::Add(times(d0, 1), times(d1, 3)), hn::Add(times(d2, 5), times(d3, 7)));
  x.r3 = hn::Sub(hn::Sub(times(d0, 3), times(d1, 7)), hn::Add(times(d2, 1), times(d3, 5)));
  x.r5 = hn::Add(hn::Sub(times(d0, 5), times(d1, 1)), hn::Add(times(d2, 7), times(d3, 3)));
  x.r7 = hn::Add(hn::Sub(times(d0, 7), times(d1, 5)), hn::Sub(times(d2, 3), times(d3, 1)));
}

/// dct8_inverse of every lane, along the rows.
HWY_INLINE void dct_backward(DctRows& x) {
  const DctTag d;
  const auto times = [&](DctVec v, int n)
                         CINCH_INLINE_LAMBDA { return hn::Mul(v, hn::Set(d, kDctCos[n])); };
  const auto c1 = x.r1, c3 = x.r3, c5 = x.r5, c7 = x.r7;
  const auto e0 = times(hn::Add(x.r0, x.r4), 4), e1 = times(hn::Sub(x.r0, x.r4), 4);
  const auto e2 = hn::Add(times(x.r2, 2), times(x.r6, 6));
  const auto e3 = hn::Sub(times(x.r2, 6), times(x.r6, 2));
  const auto s0 = hn::Add(e0, e2), s1 = hn::Add(e1, e3);
  const auto s2 = hn::Sub(e1, e3), s3 = hn::Sub(e0, e2);
  const auto d0 = hn::Add(hn::Add(times(c1, 1), times(c3, 3)), hn::Add(times(c5, 5), times(c7, 7)));
  const auto d1 = hn::Sub(hn::Sub(times(c1, 3), times(c3, 7)), hn::Add(times(c5, 1), times(c7, 5)));
  const auto d2 = hn::Add(hn::Sub(times(c1, 5), times(c3, 1)), hn::Add(times(c5, 7), times(c7, 3)));
  const auto d3 = hn::Add(hn::Sub(times(c1, 7), times(c3, 5)), hn::Sub(times(c5, 3), times(c7, 1)));
  x.r0 = hn::Add(s0, d0);
  x.r7 = hn::Sub(s0, d0);
  x.r1 = hn::Add(s1, d1);
  x.r6 = hn::Sub(s1, d1);
  x.r2 = hn::Add(s2, d2);
  x.r5 = hn::Sub(s2, d2);
  x.r3 = hn::Add(s3, d3);
  x.r4 = hn::Sub(s3, d3);
}

#if HWY_MAX_BYTES >= 32
/// Transposes each 8 x 8 block.
HWY_INLINE void turn_blocks(DctRows& x) {
  const DctTag d;
  const hn::Repartition<double, DctTag> d64;
  const auto pair = [&](auto v) CINCH_INLINE_LAMBDA { return hn::BitCast(d64, v); };
  const auto single = [&](auto v) CINCH_INLINE_LAMBDA { return hn::BitCast(d, v); };
  const auto a0 = pair(hn::InterleaveLower(d, x.r0, x.r1)),
             a1 = pair(hn::InterleaveUpper(d, x.r0, x.r1));
  const auto a2 = pair(hn::InterleaveLower(d, x.r2, x.r3)),
             a3 = pair(hn::InterleaveUpper(d, x.r2, x.r3));
  const auto a4 = pair(hn::InterleaveLower(d, x.r4, x.r5)),
             a5 = pair(hn::InterleaveUpper(d, x.r4, x.r5));
  const auto a6 = pair(hn::InterleaveLower(d, x.r6, x.r7)),
             a7 = pair(hn::InterleaveUpper(d, x.r6, x.r7));
  // Column c of rows 0 to 3, and of rows 4 to 7; in the upper 128 bits column 4 + c.
  const auto join = [&](auto top, auto bottom, DctVec& low, DctVec& high) CINCH_INLINE_LAMBDA {
    const auto t = single(top), b = single(bottom);
    low = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), t);
    high = hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(t));
  };
  join(hn::InterleaveLower(d64, a0, a2), hn::InterleaveLower(d64, a4, a6), x.r0, x.r4);
  join(hn::InterleaveUpper(d64, a0, a2), hn::InterleaveUpper(d64, a4, a6), x.r1, x.r5);
  join(hn::InterleaveLower(d64, a1, a3), hn::InterleaveLower(d64, a5, a7), x.r2, x.r6);
  join(hn::InterleaveUpper(d64, a1, a3), hn::InterleaveUpper(d64, a5, a7), x.r3, x.r7);
}
#endif

/// Runs `columns(rows)`, transposes each block, and runs `turned(c, rows)` on the result, for the
/// blocks at `from` in columns [0, n). c is the first column of the lanes; n is a multiple of 16.
template <class Columns, class Turned>
HWY_INLINE void on_turned(const float* HWY_RESTRICT from, std::int64_t n, const Columns& columns,
                          const Turned& turned) {
  constexpr std::int64_t stride = cpu::DctJob::kColumns;
  DctRows rows;
#if HWY_MAX_BYTES >= 32
  for (std::int64_t c = 0; c < n; c += static_cast<std::int64_t>(hn::MaxLanes(DctTag()))) {
    rows.load(from + c, stride);
    columns(rows);
    turn_blocks(rows);
    turned(c, rows);
  }
#else
  // A vector holds half a block's row.
  const DctTag d;
  HWY_ALIGN float straight[64];
  HWY_ALIGN float across[64];
  for (std::int64_t c = 0; c < n; c += 8) {
    for (std::int64_t half = 0; half < 8; half += 4) {
      rows.load(from + c + half, stride);
      columns(rows);
      rows.for_each([&](int r, DctVec& v)
                        CINCH_INLINE_LAMBDA { hn::Store(v, d, straight + 8 * r + half); });
    }
    transpose(sizeof(float), straight, 8, 8, 8, across, 8, true);
    for (std::int64_t half = 0; half < 8; half += 4) {
      rows.load(across + half, 8);
      turned(c + half, rows);
    }
  }
#endif
}

/// Decodes coefficients (rows v, lanes u) to values of the element's type. `result(c, rows)` gets
/// rows as they are in memory.
template <class Result>
HWY_INLINE void dct_reconstruct(const float* HWY_RESTRICT coefficients, std::int64_t n,
                                ElementType type, const Result& result) {
  const auto run = [&](const auto& in_type) CINCH_INLINE_LAMBDA {
    on_turned(
        coefficients, n, [](DctRows& rows) CINCH_INLINE_LAMBDA { dct_backward(rows); },
        [&](std::int64_t c, DctRows& rows) CINCH_INLINE_LAMBDA {
          dct_backward(rows);
          rows.for_each([&](int, DctVec& y) CINCH_INLINE_LAMBDA { y = in_type(y); });
          result(c, rows);
        });
  };
  const DctTag d;
  if (type == ElementType::float32) {
    run([](DctVec y) CINCH_INLINE_LAMBDA { return y; });
  } else if (type == ElementType::bfloat16) {
    run([&](DctVec y) CINCH_INLINE_LAMBDA { return lanes_of_bf16(d, lanes_to_bf16(d, y)); });
  } else {
    run([&](DctVec y) CINCH_INLINE_LAMBDA { return lanes_of_f16(d, lanes_to_f16(d, y)); });
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
