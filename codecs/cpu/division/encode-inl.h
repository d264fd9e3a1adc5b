// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_DIVISION_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_DIVISION_ENCODE_INL_H_
#undef CINCH_CODECS_CPU_DIVISION_ENCODE_INL_H_
#else
#define CINCH_CODECS_CPU_DIVISION_ENCODE_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/division/batches-inl.h"
#include "codecs/cpu/division/job.h"
#include "codecs/cpu/division/rows-inl.h"
#include "codecs/cpu/division/small-inl.h"
#include "codecs/cpu/division/survey-inl.h"
#include "codecs/cpu/vectors/affine-inl.h"
#include "codecs/cpu/vectors/bits-inl.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/vectors/philox-inl.h"
#include "codecs/cpu/workspace.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace division {

/// Encodes planes in order, small ones in batches, so that the costs of a batch and of vectors that
/// reach past planes' ends are small.
template <class Elements>
class Encoder {
 public:
  using T = typename Elements::Raw;

  Encoder(const cpu::DivisionJob& job, cpu::Workspace& work, std::byte* out, std::int64_t first,
          std::int64_t last)
      : job_(job),
        work_(work),
        g_(job.geometry),
        n_(job.what.layout.plane_size()),
        block_rows_(g_.blocks[0] * g_.blocks[1]),
        pitch_(Spread::pitch(g_)),
        batch_(std::clamp<std::int64_t>(kBatchElements / n_, 1,
                                        std::max<std::int64_t>(last - first, 1))),
        out_(out),
        survey_(g_),
        small_survey_(g_),
        draws_(job.key, last * n_),
        codes_(job.parameters.bits,
               out + job.sections.codes + first * n_ / 8 * job.parameters.bits),
        signs_(1, out + job.sections.signs + first * n_ / 8) {}

  /// The most planes that one call of `operator()` takes.
  std::int64_t batch() const { return batch_; }

  /// @return false when memory ran out
  bool prepare() {
    const std::int64_t ranges = batch_ + slack();
    rows_ = work_.row.get<float>(batch_ * block_rows_ * pitch_ + slack());
    min_ = work_.ranges.get<float>(5 * ranges);
    max_ = min_ + ranges;
    lo_ = max_ + ranges;
    scale_ = lo_ + ranges;
    packed_ = reinterpret_cast<std::uint32_t*>(scale_ + ranges);
    return rows_ != nullptr && min_ != nullptr && survey_.prepare(work_) &&
           runs_.prepare(g_, work_.runs) && draws_.prepare(work_.draws) && code_room() != nullptr &&
           (!job_.parameters.with_sign || sign_room() != nullptr);
  }

  /// Encodes `count` planes from p on, at most batch(). They lie `pitch` elements apart at `x`,
  /// with a readable vector of bytes behind. @return whether they are representable
  bool operator()(const T* HWY_RESTRICT x, std::int64_t pitch, std::int64_t p, std::int64_t count) {
    survey(x, pitch, p, count);
    bool representable = put_ranges(p, count);
    std::uint8_t* const codes = code_room();
    for (std::int64_t k = 0; k < count; ++k) {
      if (max_[k] < min_[k]) {
        std::memset(codes + k * n_, 0, n_);
      } else if (job_.parameters.bits == 8) {
        quantize<true>(x + k * pitch, (p + k) * n_, k, codes + k * n_);
      } else {
        quantize<false>(x + k * pitch, (p + k) * n_, k, codes + k * n_);
      }
    }
    codes_.push(count * n_);
    if (job_.parameters.with_sign) {
      for (std::int64_t k = 0; k < count; ++k) {
        representable &= positives(x + k * pitch, n_, sign_room() + k * n_);
      }
      signs_.push(count * n_);
    }
    return representable;
  }

  void finish() {
    codes_.finish();
    if (job_.parameters.with_sign) signs_.finish();
  }

 private:
  /// Small enough for source, codes and draws to stay in the L1 cache.
  static constexpr std::int64_t kBatchElements = 4096;

  static std::int64_t slack() {
    return static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<std::uint8_t>()));
  }
  std::uint8_t* code_room() { return codes_.room(work_.codes, batch_ * n_, slack()); }
  std::uint8_t* sign_room() { return signs_.room(work_.signs, batch_ * n_, slack()); }

  /// The first pass: writes the means, and fills min_ and max_.
  HWY_INLINE void survey(const T* HWY_RESTRICT x, std::int64_t pitch, std::int64_t p,
                         std::int64_t count) {
    const std::int64_t mean_bytes = g_.block_count() * 2;
    std::byte* const means = out_ + p * mean_bytes;
    if (SmallSurvey<Elements>::takes(g_)) {
      small_survey_(x, pitch, count, {min_, max_, means, rows_});
      return;
    }
    for (std::int64_t k = 0; k < count; ++k) {
      const cpu::DivisionBounds bounds =
          survey_(x + k * pitch, means + k * mean_bytes, rows_ + k * block_rows_ * pitch_);
      min_[k] = bounds.min;
      max_[k] = bounds.good ? bounds.max : -1.0F;
      if (!bounds.good) std::memset(means + k * mean_bytes, 0, mean_bytes);
    }
  }

  /// Computes the batch's ranges and scales from min_ and max_. @return whether none is poisoned
  HWY_INLINE bool put_ranges(std::int64_t p, std::int64_t count) {
    const hn::ScalableTag<float> df;
    const hn::RebindToUnsigned<decltype(df)> du;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
    const auto poisoned = hn::Set(du, std::bit_cast<std::uint32_t>(poisoned_range()));
    bool good = true;
    for (std::int64_t k = 0; k < count; k += lanes) {
      const auto min = hn::LoadU(df, min_ + k);
      const auto max = hn::LoadU(df, max_ + k);
      const auto ranges = affine_ranges(df, min, max, job_.parameters.bits);
      const auto bad = hn::Lt(max, min);
      const auto some = hn::FirstN(df, static_cast<std::size_t>(count - k));
      good &= hn::AllFalse(df, hn::And(bad, some));
      hn::StoreU(ranges.lo, df, lo_ + k);
      hn::StoreU(ranges.scale, df, scale_ + k);
      hn::StoreU(hn::IfThenElse(hn::RebindMask(du, bad), poisoned, packed_ranges(df, ranges)), du,
                 packed_ + k);
    }
    std::memcpy(out_ + job_.sections.ranges + p * 4, packed_, count * 4);
    return good;
  }

  /// Writes the codes of the batch's plane k at `x`; its logical indices begin at `first`.
  template <bool kEightBits>
  HWY_INLINE void quantize(const T* HWY_RESTRICT x, std::int64_t first, std::int64_t k,
                           std::uint8_t* HWY_RESTRICT codes) {
    const hn::ScalableTag<float> df;
    const AffineQuantizer<kEightBits> quantizer(lo_[k], scale_[k], job_.parameters.bits);
    const float* const rows = rows_ + k * block_rows_ * pitch_;
    const std::int64_t columns = g_.blocks[2] == 1 ? 0 : 1;  // one vector serves all columns
    for (const Run& run : runs_) {
      const std::uint16_t* draws = draws_.at(first + run.first, run.count());
      const float* const means = rows + run.block_row * pitch_ + run.column * columns;
      const T* from = x + run.first;
      std::uint8_t* to = codes + run.first;
      for (std::int64_t row = 0; row < run.rows; ++row) {
        quantizer(
            [&](std::int64_t j) {
              return hn::Sub(Elements::load(df, from + j), hn::LoadU(df, means + j * columns));
            },
            draws, run.width, to);
        draws += run.width;
        from += run.width;
        to += run.width;
      }
    }
  }

  /// Writes 1 for each of n elements above 0, else 0. @return false when an element is negative
  HWY_INLINE bool positives(const T* HWY_RESTRICT x, std::int64_t n,
                            std::uint8_t* HWY_RESTRICT signs) {
    const hn::ScalableTag<float> df;
    const hn::RebindToSigned<decltype(df)> di;
    const hn::Rebind<std::uint8_t, decltype(df)> d8;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
    auto negative = hn::MaskFromVec(hn::Zero(df));
    for (std::int64_t i = 0; i < n; i += lanes) {
      auto v = Elements::load(df, x + i);
      if (n - i < lanes) v = hn::IfThenElseZero(hn::FirstN(df, static_cast<std::size_t>(n - i)), v);
      negative = hn::Or(negative, hn::Lt(v, hn::Zero(df)));
      const auto positive = hn::RebindMask(di, hn::Gt(v, hn::Zero(df)));
      hn::StoreU(hn::DemoteTo(d8, hn::IfThenElseZero(positive, hn::Set(di, 1))), d8, signs + i);
    }
    return hn::AllFalse(df, negative);
  }

  const cpu::DivisionJob& job_;
  cpu::Workspace& work_;
  const DivisionGeometry& g_;
  std::int64_t n_;           ///< elements of a plane
  std::int64_t block_rows_;  ///< rows of blocks of a plane
  std::int64_t pitch_;       ///< of rows_
  std::int64_t batch_;
  std::byte* out_;
  Survey<Elements> survey_;
  SmallSurvey<Elements> small_survey_;
  Runs runs_;
  DrawStream draws_;
  CodeStream codes_;
  CodeStream signs_;
  float* rows_ = nullptr;  ///< the batch's means, spread
  float *min_ = nullptr, *max_ = nullptr, *lo_ = nullptr, *scale_ = nullptr;  ///< one a plane
  std::uint32_t* packed_ = nullptr;
};

template <class Elements>
cpu::DivisionOutcome encode_planes(const cpu::DivisionJob& job,
                                   const typename Elements::Raw* source, std::byte* out,
                                   std::int64_t first, std::int64_t last) {
  cpu::Workspace& work = cpu::workspace();
  Encoder<Elements> encoder(job, work, out, first, last);
  bool representable = true;
  const bool good = encoder.prepare() &&
                    for_each_batch<Elements>(
                        job.what.layout, source, first, last, encoder.batch(), work.tile,
                        [&](const typename Elements::Raw* x, std::int64_t pitch, std::int64_t p,
                            std::int64_t count) { representable &= encoder(x, pitch, p, count); });
  if (!good) return cpu::DivisionOutcome::out_of_memory;
  encoder.finish();
  return representable ? cpu::DivisionOutcome::done : cpu::DivisionOutcome::not_representable;
}

}  // namespace division

/// Encodes planes [first, last). @pre first is a multiple of planes_per_byte
cpu::DivisionOutcome division_encode(const cpu::DivisionJob& job, const void* source,
                                     std::byte* out, std::int64_t first, std::int64_t last) {
  return with_element(job.what.type, [&](auto elements) {
    using Elements = decltype(elements);
    const auto* const x = static_cast<const typename Elements::Raw*>(source);
    return division::encode_planes<Elements>(job, x, out, first, last);
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
