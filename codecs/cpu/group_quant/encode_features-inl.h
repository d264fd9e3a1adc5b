// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_GROUP_QUANT_ENCODE_FEATURES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_GROUP_QUANT_ENCODE_FEATURES_INL_H_
#undef CINCH_CODECS_CPU_GROUP_QUANT_ENCODE_FEATURES_INL_H_
#else
#define CINCH_CODECS_CPU_GROUP_QUANT_ENCODE_FEATURES_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codecs/cpu/group_quant/encode-inl.h"
#include "codecs/cpu/group_quant/features.h"
#include "codecs/cpu/group_quant/job.h"
#include "codecs/cpu/group_quant/quantize-inl.h"
#include "codecs/cpu/group_quant/ranges-inl.h"
#include "codecs/cpu/group_quant/strip_codes-inl.h"
#include "codecs/cpu/group_quant/zero_code-inl.h"
#include "codecs/cpu/inline_lambda.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/vectors/philox_apart-inl.h"
#include "codecs/cpu/vectors/prefetch-inl.h"
#include "codecs/cpu/workspace.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Neighbouring features of a sample's rows: whole strips.
template <class S>
struct FeatureSource {
  const typename S::Raw* x;
  std::int64_t pitch;  ///< from row to row
  std::int64_t rows;
};

/// The features' smallest and largest elements.
struct FeatureExtremes {
  HWY_ALIGN float min[cpu::kRangedFeatures];
  HWY_ALIGN float max[cpu::kRangedFeatures];
  HWY_ALIGN float sum[cpu::kRangedFeatures];  ///< as Extremes has it

  /// Finds those of `count` features. @tparam Kind AboveZero, or AllElements
  template <class Kind, class S>
  HWY_NOINLINE void find(const FeatureSource<S>& of, std::int64_t count) {
    const ExtremeTag df;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
    for (std::int64_t f = 0; f < count; f += lanes) Kind().store(min + f, max + f, sum + f);
    for (std::int64_t r = 0; r < of.rows; r += kRows) {
      const auto* const row = of.x + r * of.pitch;
      for (std::int64_t i = kRows; i < 2 * kRows; ++i) prefetch(row + i * of.pitch, count);
      for (std::int64_t f = 0; f < count; f += lanes) {
        Kind found(min + f, max + f, sum + f);
        for (std::int64_t i = 0; i < kRows; ++i) found.add(S::load(df, row + i * of.pitch + f));
        found.store(min + f, max + f, sum + f);
      }
    }
    for (std::int64_t f = 0; f < count; ++f) {
      if (std::isnan(sum[f])) take_nan(of, f);
    }
  }

 private:
  static constexpr std::int64_t kRows = 8;  ///< groups have a multiple of them

  /// Makes the feature's smallest element NaN if it has one, which Min and Max may hide.
  template <class S>
  HWY_NOINLINE void take_nan(const FeatureSource<S>& of, std::int64_t f) {
    for (std::int64_t r = 0; r < of.rows; ++r) {
      const float x = S::value(std::bit_cast<typename S::Bits>(of.x[r * of.pitch + f]));
      if (std::isnan(x)) min[f] = x;
    }
  }
};

/// Encodes the features of a strip. Every eight rows' codes of a feature are whole bytes.
/// @tparam kZeroCode job.zero_code
template <class S, bool kEightBits, bool kZeroCode>
class StripEncoder {
  using DF = ExtremeTag;
  using DU = hn::RebindToUnsigned<DF>;
  using VU = hn::Vec<DU>;

 public:
  /// @param codes scratch
  StripEncoder(const PhiloxApart& draws, const GroupRanges& ranges, int bits, float floor,
               StripCodes& codes)
      : draws_(draws), ranges_(ranges), bits_(bits), floor_(floor), codes_(codes) {}

  /// @param block the block of draws of the first feature's first rows
  /// @param count features whose codes are wanted
  HWY_NOINLINE void encode(const FeatureSource<S>& of, std::uint64_t block, std::int64_t count,
                           std::byte* out) const {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(DF()));
    const std::int64_t blocks = of.rows / philox::kDrawsPerBlock;
    for (std::int64_t r = 0; r < of.rows; r += StripCodes::kRows) {
      const FeatureSource<S> part = {of.x + r * of.pitch, of.pitch,
                                     std::min(StripCodes::kRows, of.rows - r)};
      const std::int64_t before = r / philox::kDrawsPerBlock;
      for (std::int64_t v = 0; v < cpu::kStripFeatures; v += lanes) {
        encode_vector(part, v, block + static_cast<std::uint64_t>(v * blocks + before));
      }
      codes_.store(out + before * bits_, blocks * bits_, part.rows / philox::kDrawsPerBlock * bits_,
                   count);
    }
  }

 private:
  /// The codes of the features from `v` on.
  HWY_INLINE void encode_vector(const FeatureSource<S>& of, std::int64_t v,
                                std::uint64_t block) const {
    const DF df;
    const DU du;
    const auto lo = hn::Load(df, ranges_.los() + v);
    const auto scale = hn::Load(df, ranges_.scales() + v);
    const auto floor = hn::Set(df, floor_);
    const auto range = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(ranges_.ranges()) + v);
    const auto poisoned = hn::Eq(range, hn::Set(du, std::uint32_t{kPoisonedStep} << 16));
    const auto top = hn::Set(du, (1U << bits_) - 1);
    const auto by = hn::Set(du, static_cast<std::uint32_t>(bits_));
    const auto by_two = hn::Add(by, by), by_four = hn::Add(by_two, by_two);
    const auto* row = of.x + v;
    StripCodes::Writer to(codes_, v);
    for (std::int64_t r = 0; r < of.rows; r += philox::kDrawsPerBlock) {
      VU words[4];
      draws_.blocks(block++, words);
      const auto code = [&](int i, VU draw) CINCH_INLINE_LAMBDA {
        auto x = S::load(df, row + i * of.pitch);
        const auto above = hn::Gt(x, hn::Zero(df));
        if constexpr (kZeroCode) x = hn::IfThenElse(above, x, lo);
        const auto fixed = hn::Add(affine_fixed<kEightBits>(df, x, lo, scale, floor), draw);
        const VU c = clamped(hn::ShiftRight<16>(fixed), top);
        if constexpr (!kZeroCode) return c;
        const VU sign = hn::IfThenElseZero(hn::RebindMask(du, above), hn::Set(du, 1));
        return hn::IfThenElse(poisoned, sign, c);
      };
      const auto two = [&](int word) CINCH_INLINE_LAMBDA {
        const VU even = code(2 * word, hn::And(words[word], hn::Set(du, 0xFFFF)));
        return hn::Or(even, hn::Shl(code(2 * word + 1, hn::ShiftRight<16>(words[word])), by));
      };
      const auto kept = [&](VU packed) CINCH_INLINE_LAMBDA {
        return kZeroCode ? packed : hn::IfThenZeroElse(poisoned, packed);
      };
      const VU low = hn::Or(two(0), hn::Shl(two(1), by_two));
      const VU high = hn::Or(two(2), hn::Shl(two(3), by_two));
      if (bits_ <= 4) {
        to.append(kept(hn::Or(low, hn::Shl(high, by_four))), 8 * bits_);
      } else {
        to.append(kept(low), 4 * bits_);
        to.append(kept(high), 4 * bits_);
      }
      row += philox::kDrawsPerBlock * of.pitch;
    }
    to.end();
  }

  /// Codes without what lies above bit 7, at most `top`.
  static HWY_INLINE VU clamped(VU codes, VU top) {
    codes = hn::And(codes, hn::Set(DU(), 0xFF));
    return kEightBits ? codes : hn::Min(codes, top);
  }

  const PhiloxApart& draws_;
  const GroupRanges& ranges_;
  int bits_;
  float floor_;
  StripCodes& codes_;
};

/// The features as they are encoded: where they lie, or copied to whole strips of a type that can
/// be quantized. Its x is null when memory ran out.
template <class S>
auto in_strips(const typename S::Raw* x, const cpu::FeatureRows& of, std::int64_t count,
               cpu::Buffer& buffer) {
  using Kind = typename Worked<S>::Kind;
  if constexpr (std::is_same_v<S, Kind>) {
    if (count % cpu::kStripFeatures == 0) return FeatureSource<S>{x, of.features, of.rows};
  }
  const std::int64_t pitch = cpu::whole_strips(count);
  auto* const tile = buffer.get<typename Kind::Raw>(of.rows * pitch);
  for (std::int64_t r = 0; tile != nullptr && r < of.rows; ++r) {
    auto* const to = tile + r * pitch;
    if constexpr (std::is_same_v<S, Kind>) {
      std::copy_n(x + r * of.features, count, to);
    } else {
      narrow_doubles(x + r * of.features, count, to);
    }
    std::fill_n(to + count, pitch - count, to[count - 1]);
  }
  return FeatureSource<Kind>{tile, pitch, of.rows};
}

/// Ranges of the features of a strip, from `first` on.
/// @param representable becomes false where elements are not
inline GroupRanges ranges_of_strip(const cpu::GroupQuantJob& job, const FeatureExtremes& extremes,
                                   std::int64_t first, int bits, bool& representable) {
  const ExtremeTag df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
  GroupRanges ranges;
  for (std::int64_t v = 0; v < cpu::kStripFeatures; v += lanes) {
    const auto min = hn::Load(df, extremes.min + first + v);
    const auto max = hn::Load(df, extremes.max + first + v);
    if (job.zero_code) {
      const auto sum = hn::Load(df, extremes.sum + first + v);
      const AboveZeroBounds bounds(min, max, sum, bits);
      ranges.hold(bounds.min, bounds.max, bits, v);
      representable &= !any_below_zero(sum);
    } else {
      ranges.hold(min, max, bits, v, job.floor);
    }
  }
  representable &= !ranges.any_poisoned();
  return ranges;
}

template <class S>
bool encode_features_of(const cpu::GroupQuantJob& job, const void* source, std::byte* out,
                        std::int64_t first, std::int64_t last, bool* representable) {
  using Kind = typename Worked<S>::Kind;
  const cpu::FeatureRows of(job.what.layout);
  const PhiloxLanes philox(job.key);
  const std::int64_t blocks = of.rows / philox::kDrawsPerBlock;
  const PhiloxApart draws(philox, static_cast<std::uint64_t>(blocks));
  StripCodes scratch;
  for (std::int64_t g = first; g < last;) {
    const std::int64_t sample = g / of.features, begin = g % of.features;
    const std::int64_t count = std::min({cpu::kRangedFeatures, last - g, of.features - begin});
    const auto* const elements = static_cast<const typename S::Raw*>(source);
    const auto x = in_strips<S>(elements + sample * of.rows * of.features + begin, of, count,
                                cpu::workspace().tile);
    if (x.x == nullptr) return false;
    FeatureExtremes extremes;
    if (job.zero_code) {
      extremes.find<AboveZero>(x, cpu::whole_strips(count));
    } else {
      extremes.find<AllElements>(x, cpu::whole_strips(count));
    }
    const int bits = job.codes.bits(sample);
    std::byte* const codes = out + job.codes.begin(sample) + begin * blocks * bits;
    for (std::int64_t f = 0; f < count; f += cpu::kStripFeatures) {
      const std::int64_t some = std::min(cpu::kStripFeatures, count - f);
      const GroupRanges ranges = ranges_of_strip(job, extremes, f, bits, *representable);
      std::memcpy(out + job.sections.ranges + (g + f) * 4, ranges.ranges(), some * 4);
      const auto encode = [&](auto encoder) {
        encoder.encode({x.x + f, x.pitch, x.rows}, static_cast<std::uint64_t>((g + f) * blocks),
                       some, codes + f * blocks * bits);
      };
      const auto encode_with = [&](auto zero_code) {
        constexpr bool kZeroCode = decltype(zero_code)::value;
        if (bits == 8) {
          encode(StripEncoder<Kind, true, kZeroCode>(draws, ranges, bits, job.floor, scratch));
        } else {
          encode(StripEncoder<Kind, false, kZeroCode>(draws, ranges, bits, job.floor, scratch));
        }
      };
      if (job.zero_code) {
        encode_with(std::true_type());
      } else {
        encode_with(std::false_type());
      }
    }
    g += count;
  }
  return true;
}

/// encode_groups of groups of one feature. @pre interleaves_groups(layout, group)
bool encode_features(const cpu::GroupQuantJob& job, const void* source, std::byte* out,
                     std::int64_t first, std::int64_t last, bool* representable) {
  return with_any_element(job.what.type, [&](auto kind) {
    return encode_features_of<decltype(kind)>(job, source, out, first, last, representable);
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
