// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_DIVISION_QUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_DIVISION_QUANTIZE_INL_H_
#undef CINCH_CODECS_CPU_DIVISION_QUANTIZE_INL_H_
#else
#define CINCH_CODECS_CPU_DIVISION_QUANTIZE_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "codecs/cpu/division_job.h"
#include "codecs/cpu/philox-inl.h"
#include "codecs/cpu/workspace.h"
#include "codecs/float_formats.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Codes of `count` residuals at `r`, whose draws lie at `draws`; stores up to
/// a vector beyond.
template <bool kEightBits>
HWY_INLINE void quantize_stretch(const float* HWY_RESTRICT r,
                                 const std::uint16_t* HWY_RESTRICT draws, std::int64_t count,
                                 AffineRange range, int bits, std::uint8_t* HWY_RESTRICT codes) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::Rebind<std::uint16_t, decltype(df)> d16;
  const hn::Rebind<std::uint8_t, decltype(df)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  const float step = float_of_bf16(range.step);
  const auto lo = hn::Set(df, float_of_bf16(range.lo));
  const auto scale = hn::Set(df, step > 0.0F ? 65536.0F / step : 0.0F);
  // Adding 2^23 rounds to an integer, which the low bits of the sum then are,
  // as long as it is below 2^23: with 7 bits or fewer. What lies above the code
  // falls away with the upper bytes.
  const auto magic = hn::Set(df, 0x1p23F);
  const auto base = kEightBits ? hn::Zero(di) : hn::ShiftRight<16>(hn::BitCast(di, magic));
  const auto top = hn::Add(base, hn::Set(di, (1 << bits) - 1));
  for (std::int64_t i = 0; i < count; i += lanes) {
    const auto u = hn::Mul(hn::Sub(hn::LoadU(df, r + i), lo), scale);
    const auto draw = hn::PromoteTo(di, hn::LoadU(d16, draws + i));
    auto fixed = hn::Zero(di);
    if constexpr (kEightBits) {
      fixed = hn::NearestInt(u);
    } else {
      fixed = hn::BitCast(di, hn::Add(u, magic));
    }
    const auto code = hn::Min(hn::ShiftRight<16>(hn::Add(fixed, draw)), top);
    hn::StoreU(hn::TruncateTo(d8, hn::BitCast(du, code)), d8, codes + i);
  }
}

/// Codes of n residuals, the first at logical index `first`; stores up to a
/// vector beyond.
HWY_INLINE bool quantize(const cpu::DivisionJob& job, const float* HWY_RESTRICT r, std::int64_t n,
                         std::int64_t first, AffineRange range, cpu::Workspace& work,
                         std::uint8_t* HWY_RESTRICT codes) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  constexpr std::int64_t kStretch = 2048;
  auto* const draws = work.draws.get<std::uint16_t>(kStretch + 16 * lanes + 64);
  if (draws == nullptr) return false;
  const int bits = job.parameters.bits;
  const std::int64_t skipped = first % philox::kDrawsPerBlock;
  for (std::int64_t begin = 0; begin < n; begin += kStretch) {
    const std::int64_t count = std::min(kStretch, n - begin);
    fill_draws(job.key, static_cast<std::uint64_t>((first + begin) / philox::kDrawsPerBlock),
               (skipped + count + philox::kDrawsPerBlock - 1) / philox::kDrawsPerBlock, draws);
    if (bits == 8) {
      quantize_stretch<true>(r + begin, draws + skipped, count, range, bits, codes + begin);
    } else {
      quantize_stretch<false>(r + begin, draws + skipped, count, range, bits, codes + begin);
    }
  }
  return true;
}

/// 1 for each of n elements above 0, else 0; stores up to a vector beyond.
/// @return false when an element is negative
HWY_INLINE bool positives(const float* HWY_RESTRICT x, std::int64_t n,
                          std::uint8_t* HWY_RESTRICT signs) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<std::uint8_t, decltype(df)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  const auto zero = hn::Zero(df);
  auto min = zero;
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(df, x + i);
    min = hn::Min(min, v);
    const auto positive = hn::RebindMask(di, hn::Gt(v, zero));
    hn::StoreU(hn::DemoteTo(d8, hn::IfThenElseZero(positive, hn::Set(di, 1))), d8, signs + i);
  }
  bool negative = hn::GetLane(hn::MinOfLanes(df, min)) < 0.0F;
  for (; i < n; ++i) {
    negative |= x[i] < 0.0F;
    signs[i] = x[i] > 0.0F;
  }
  return !negative;
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
