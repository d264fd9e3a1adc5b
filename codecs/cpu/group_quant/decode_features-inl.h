// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_GROUP_QUANT_DECODE_FEATURES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_GROUP_QUANT_DECODE_FEATURES_INL_H_
#undef CINCH_CODECS_CPU_GROUP_QUANT_DECODE_FEATURES_INL_H_
#else
#define CINCH_CODECS_CPU_GROUP_QUANT_DECODE_FEATURES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codecs/cpu/group_quant/features.h"
#include "codecs/cpu/group_quant/job.h"
#include "codecs/cpu/group_quant/ranges-inl.h"
#include "codecs/cpu/group_quant/strip_codes-inl.h"
#include "codecs/cpu/inline_lambda.h"
#include "codecs/cpu/vectors/code_values-inl.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/vectors/philox_apart-inl.h"
#include "codecs/cpu/workspace.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Decodes up to kDecodedRows rows of a strip's features.
class StripDecoder {
  using DF = ExtremeTag;
  using DU = hn::RebindToUnsigned<DF>;
  using VF = hn::Vec<DF>;
  using VU = hn::Vec<DU>;

 public:
  /// @param in all encoded data
  StripDecoder(const cpu::GroupQuantJob& job, const std::byte* in, const PhiloxApart& draws)
      : job_(job), in_(in), draws_(draws) {}

  /// Takes the codes of `rows` rows of `count` features and their ranges.
  /// @param codes offset of the first feature's codes of these rows
  /// @param apart from a feature's codes to the next one's, in bytes
  void load(std::int64_t ranges, std::int64_t codes, std::int64_t apart, int bits,
            std::int64_t rows, std::int64_t count) {
    bits_ = bits;
    count_ = count;
    if (job_.signs) {
      std::fill_n(range_, count, range_of_signs());
    } else {
      std::memcpy(range_, in_ + ranges, count * sizeof(AffineRange));
    }
    blocks_ = rows / philox::kDrawsPerBlock;
    codes_.load(in_ + codes, apart, blocks_ * bits, count, in_ + job_.sections.end);
  }

  /// Writes the values of all features of a strip, `pitch` from row to row.
  /// @param block the block of draws of the first feature's first of these rows, `apart` blocks
  ///   before that of the next feature
  /// @param past_caches with non-temporal stores: for Float32 at whole cache lines
  template <class S>
  void write(S kind, std::uint64_t block, std::int64_t apart, bool past_caches, typename S::Raw* x,
             std::int64_t pitch) const {
    if (job_.has_draws()) {
      write_blocks<S, true>(block, apart, past_caches, x, pitch);
    } else {
      write_blocks<S, false>(block, apart, past_caches, x, pitch);
    }
    for (std::int64_t f = 0; f < count_; ++f) {
      if (!(range_[f] == poisoned_range())) continue;
      for (std::int64_t r = 0; r < blocks_ * philox::kDrawsPerBlock; ++r) {
        x[r * pitch + f] = nan_of(kind);
      }
    }
  }

 private:
  /// Whole cache lines of a few rows after one another, even if they take several vectors.
  template <class S, bool kDithered>
  HWY_NOINLINE void write_blocks(std::uint64_t block, std::int64_t apart, bool past_caches,
                                 typename S::Raw* HWY_RESTRICT x, std::int64_t pitch) const {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(DF()));
    for (std::int64_t b = 0; b < blocks_; ++b) {
      for (std::int64_t v = 0; v < cpu::kStripFeatures; v += lanes) {
        write_eight_rows<S, kDithered>(b, v, block + static_cast<std::uint64_t>(v * apart + b),
                                       past_caches, x + v, pitch);
      }
      x += philox::kDrawsPerBlock * pitch;
    }
  }

  /// Rows 8 b to 8 b + 7 of the features from `v` on.
  template <class S, bool kDithered>
  HWY_INLINE void write_eight_rows(std::int64_t b, std::int64_t v, std::uint64_t block,
                                   bool past_caches, typename S::Raw* HWY_RESTRICT x,
                                   std::int64_t pitch) const {
    const DF df;
    const DU du;
    const hn::RebindToSigned<DF> di;
    const auto range = hn::Load(du, reinterpret_cast<const std::uint32_t*>(range_) + v);
    const VF lo = hn::BitCast(df, hn::ShiftLeft<16>(range));
    VF step = hn::BitCast(df, hn::And(range, hn::Set(du, 0xFFFF0000U)));
    if constexpr (kDithered) step = hn::Mul(step, hn::Set(df, 0x1p-16F));
    const auto mask = hn::Set(du, (1U << bits_) - 1);
    const auto by = hn::Set(du, static_cast<std::uint32_t>(bits_));
    const auto by_two = hn::Add(by, by), by_four = hn::Add(by_two, by_two);
    const bool zero_code = job_.zero_code;
    VU words[4] = {mask, mask, mask, mask};
    if constexpr (kDithered) draws_.blocks(block, words);
    const auto put = [&](int i, VU code, VU draw) CINCH_INLINE_LAMBDA {
      const VU c = hn::And(code, mask);
      VU u = c;
      if constexpr (kDithered) {
        u = hn::Sub(hn::Add(hn::ShiftLeft<16>(u), hn::Set(du, 0x8000)), draw);
      }
      VF value = hn::Add(lo, hn::Mul(step, hn::ConvertTo(df, hn::BitCast(di, u))));
      if (zero_code) {
        value = hn::IfThenElseZero(hn::RebindMask(df, hn::Ne(c, hn::Zero(du))), value);
      }
      if (std::is_same_v<S, Float32> && past_caches) {
        stream(value, x + i * pitch);
      } else {
        S::store(df, value, x + i * pitch);
      }
    };
    const auto put_two = [&](int word, VU codes) CINCH_INLINE_LAMBDA {
      put(2 * word, codes, hn::And(words[word], hn::Set(du, 0xFFFF)));
      put(2 * word + 1, hn::Shr(codes, by), hn::ShiftRight<16>(words[word]));
    };
    const std::int64_t at = b * philox::kDrawsPerBlock * bits_;
    const VU low = codes_.read(v, at, (bits_ <= 4 ? 8 : 4) * bits_);
    const VU high = bits_ <= 4 ? hn::Shr(low, by_four) : codes_.read(v, at + 4 * bits_, 4 * bits_);
    put_two(0, low);
    put_two(1, hn::Shr(low, by_two));
    put_two(2, high);
    put_two(3, hn::Shr(high, by_two));
  }

  static HWY_INLINE void stream(VF value, float* to) { hn::Stream(value, DF(), to); }
  static HWY_INLINE void stream(VF, std::uint16_t*) {}

  const cpu::GroupQuantJob& job_;
  const std::byte* in_;
  const PhiloxApart& draws_;
  int bits_ = 0;
  std::int64_t count_ = 0;
  std::int64_t blocks_ = 0;
  HWY_ALIGN AffineRange range_[cpu::kStripFeatures] = {};
  StripCodes codes_;
};

template <class S>
void decode_features_of(const cpu::GroupQuantJob& job, const std::byte* in, void* target,
                        std::int64_t piece) {
  using Kind = std::conditional_t<std::is_same_v<S, Float64>, Float32, S>;
  const cpu::FeatureRows of(job.what.layout);
  const PhiloxLanes philox(job.key);
  const std::int64_t blocks = of.rows / philox::kDrawsPerBlock;
  const PhiloxApart draws(philox, static_cast<std::uint64_t>(blocks));
  StripDecoder strip(job, in, draws);
  // A line that several stores fill would be written several times.
  const bool whole_lines = sizeof(float) * hn::Lanes(ExtremeTag()) == 64 &&
                           of.features % cpu::kStripFeatures == 0 &&
                           reinterpret_cast<std::uintptr_t>(target) % 64 == 0;
  const bool past_caches = job.past_caches && whole_lines;

  const std::int64_t sample = piece / of.pieces();
  const std::int64_t row = piece % of.pieces() * cpu::kDecodedRows;
  const std::int64_t rows = std::min(cpu::kDecodedRows, of.rows - row);
  const std::int64_t first_block = row / philox::kDrawsPerBlock;
  const int bits = job.codes.bits(sample);
  const std::int64_t codes = job.codes.begin(sample) + first_block * bits;
  auto* const x = static_cast<typename S::Raw*>(target) + (sample * of.rows + row) * of.features;
  for (std::int64_t f = 0; f < of.features; f += cpu::kStripFeatures) {
    const std::int64_t count = std::min(cpu::kStripFeatures, of.features - f);
    const std::int64_t feature = sample * of.features + f;
    strip.load(job.sections.ranges + feature * 4, codes + f * blocks * bits, blocks * bits, bits,
               rows, count);
    const auto block = static_cast<std::uint64_t>(feature * blocks + first_block);
    if constexpr (std::is_same_v<S, Kind>) {
      if (count == cpu::kStripFeatures) {
        strip.write(S(), block, blocks, past_caches, x + f, of.features);
        continue;
      }
    }
    HWY_ALIGN typename Kind::Raw tile[cpu::kDecodedRows * cpu::kStripFeatures];
    strip.write(Kind(), block, blocks, false, tile, cpu::kStripFeatures);
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto* const from = tile + r * cpu::kStripFeatures;
      auto* const to = x + r * of.features + f;
      if constexpr (std::is_same_v<S, Kind>) {
        std::copy_n(from, count, to);
      } else {
        widen_floats(from, count, to);
      }
    }
  }
  if (past_caches) hwy::FlushStream();
}

/// Decodes a piece of groups of one feature, counted over all samples.
/// @pre interleaves_groups(layout, group)
void decode_features(const cpu::GroupQuantJob& job, const std::byte* in, void* target,
                     std::int64_t piece) {
  with_any_element(job.what.type,
                   [&](auto kind) { decode_features_of<decltype(kind)>(job, in, target, piece); });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
