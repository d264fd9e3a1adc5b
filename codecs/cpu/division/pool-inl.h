// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_DIVISION_POOL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_DIVISION_POOL_INL_H_
#undef CINCH_CODECS_CPU_DIVISION_POOL_INL_H_
#else
#define CINCH_CODECS_CPU_DIVISION_POOL_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "codecs/affine.h"
#include "codecs/cpu/division/job.h"
#include "codecs/cpu/workspace.h"
#include "codecs/formats/division/division.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

/// Code that all kinds of surveys share.
HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace division {

/// The elements that a row of blocks averages.
struct Pool {
  std::int64_t bd, bh;  ///< the row of blocks
  std::int64_t first;   ///< logical index of its first element
  std::int64_t depths;  ///< slices, of `heights` rows of elements each
  std::int64_t heights;

  std::int64_t rows() const { return depths * heights; }
};

/// The pools of a plane, the same for all planes.
class Pools {
 public:
  /// @return false when memory ran out
  bool prepare(const DivisionGeometry& g, cpu::Buffer& buffer) {
    auto* const pools = buffer.get<Pool>(g.blocks[0] * g.blocks[1]);
    if (pools == nullptr) return false;
    Pool* next = pools;
    for (std::int64_t bd = 0; bd < g.blocks[0]; ++bd) {
      const std::int64_t d = g.pool_begin(0, bd);
      for (std::int64_t bh = 0; bh < g.blocks[1]; ++bh) {
        const std::int64_t h = g.pool_begin(1, bh);
        *next++ = {bd, bh, (d * g.extent[1] + h) * g.extent[2], g.pool_end(0, bd) - d,
                   g.pool_end(1, bh) - h};
      }
    }
    pools_ = {pools, next};
    return true;
  }

  auto begin() const { return pools_.begin(); }
  auto end() const { return pools_.end(); }

 private:
  std::span<const Pool> pools_;
};

/// Least and largest elements x and residuals x - L, lane by lane, and whether an element was NaN.
struct Extremes {
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  V low, high, residual_low, residual_high;
  hn::Mask<D> nan;

  /// Larger than any element or residual of a plane that can be held.
  static constexpr float kNone = 0x1p120F;

  HWY_INLINE Extremes()
      : low(hn::Set(D(), kNone)),
        high(hn::Set(D(), -kNone)),
        residual_low(low),
        residual_high(high),
        nan(hn::MaskFromVec(hn::Zero(D()))) {}

  /// Adds elements from `least` to `largest`, of a block of mean `mean`.
  HWY_INLINE void add(V least, V largest, V mean) {
    low = hn::Min(low, least);
    high = hn::Max(high, largest);
    residual_low = hn::Min(residual_low, hn::Sub(least, mean));
    residual_high = hn::Max(residual_high, hn::Sub(largest, mean));
  }

  HWY_INLINE cpu::DivisionBounds bounds() const {
    const D d;
    const V limit = hn::Set(d, kAffineMaxMagnitude);
    const auto small = hn::And(hn::Ge(low, hn::Neg(limit)), hn::Le(high, limit));
    if (!hn::AllFalse(d, nan) || !hn::AllTrue(d, small)) return {0.0F, 0.0F, false};
    return {hn::GetLane(hn::MinOfLanes(d, residual_low)),
            hn::GetLane(hn::MaxOfLanes(d, residual_high)), true};
  }
};

/// Results for a vector of columns of a pool.
struct Columns {
  hn::Vec<hn::ScalableTag<float>> sum, low, high;
};

/// Keeps x in a register. GCC would load it again for every use, and unaligned loads are the
/// bottleneck.
template <class V>
HWY_INLINE V loaded_once(V x) {
#if HWY_COMPILER_GCC && HWY_ARCH_X86
  asm("" : "+v"(x.raw));
#endif
  return x;
}

/// Computes sums (front to back, then top to bottom), least and largest of a vector of columns,
/// from column w on, of a pool of the plane at `x`.
template <class Elements>
HWY_INLINE Columns pool_columns(const DivisionGeometry& g, const Pool& pool,
                                const typename Elements::Raw* HWY_RESTRICT x, std::int64_t w) {
  const hn::ScalableTag<float> df;
  const std::int64_t width = g.extent[2];
  const std::int64_t ahead = std::max<std::int64_t>(g.block[1] * width, 512);
  const typename Elements::Raw* at = x + pool.first + w;
  auto sum = Elements::load(df, at), low = sum, high = sum;
  hwy::Prefetch(at + ahead);
  std::int64_t left = pool.heights - 1;
  for (std::int64_t d = 1;; ++d) {
    for (; left > 0; --left) {
      at += width;
      // The hardware does not predict so many streams.
      hwy::Prefetch(at + ahead);
      const auto v = loaded_once(Elements::load(df, at));
      sum = hn::Add(sum, v);
      low = hn::Min(low, v);
      high = hn::Max(high, v);
    }
    if (d == pool.depths) break;
    at += (g.extent[1] - pool.heights) * width;
    left = pool.heights;
  }
  return {sum, low, high};
}

}  // namespace division
}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
