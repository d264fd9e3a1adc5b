// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_TWO_SIDED_CHANNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_TWO_SIDED_CHANNELS_INL_H_
#undef CINCH_CODECS_CPU_TWO_SIDED_CHANNELS_INL_H_
#else
#define CINCH_CODECS_CPU_TWO_SIDED_CHANNELS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "codecs/cpu/element_kinds-inl.h"
#include "codecs/cpu/two_sided/job.h"
#include "codecs/cpu/workspace.h"
#include "codecs/two_sided.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// What encoding needs of a channel. Without arrays, numbers that change nothing.
struct ChannelNumbers {
  float factor = 1.0F;
  float summand = 0.0F;
  float center = 0.0F;
  float inverse = 1.0F;

  ChannelNumbers() = default;
  ChannelNumbers(const Description::Sides& sides, std::int64_t channel) {
    if (sides.factor != nullptr) {
      factor = sides.factor[channel];
      summand = sides.summand[channel];
    }
    if (sides.center != nullptr) {
      center = sides.center[channel];
      inverse = inverse_spread(center, sides.spread[channel]);
    }
  }
};

/// is_upper and normalized of vectors of elements of one channel.
class OneChannel {
 public:
  HWY_INLINE explicit OneChannel(const ChannelNumbers& numbers) : numbers_(numbers) {}

  /// Whether larger elements are on the lower side. They are never normalized to smaller ones.
  bool falls() const { return numbers_.factor < 0.0F; }

  bool is_upper(float x, std::int64_t /*i*/) const {
    return codecs::is_upper(x, numbers_.factor, numbers_.summand);
  }
  template <class DF>
  HWY_INLINE auto upper(DF df, hn::Vec<DF> x, std::int64_t /*i*/) const {
    return hn::Gt(hn::MulAdd(x, hn::Set(df, numbers_.factor), hn::Set(df, numbers_.summand)),
                  hn::Zero(df));
  }
  template <class DF>
  HWY_INLINE hn::Vec<DF> normal(DF df, hn::Vec<DF> x, std::int64_t /*i*/) const {
    return hn::Mul(hn::Sub(x, hn::Set(df, numbers_.center)), hn::Set(df, numbers_.inverse));
  }

 private:
  ChannelNumbers numbers_;
};

/// Calls f(channel, begin, end) for the channels of a plane's elements [begin, end), in order.
template <typename F>
HWY_INLINE void for_each_channel(std::int64_t run, std::int64_t begin, std::int64_t end,
                                 const F& f) {
  for (std::int64_t c = begin / run; begin < end; ++c) {
    const std::int64_t stop = std::min((c + 1) * run, end);
    f(c, begin, stop);
    begin = stop;
  }
}

/// A task's numbers of each of some neighbouring elements, at most a stretch of them, where
/// channels are so small that vectors hold elements of several (TwoSidedJob::has_short_runs).
class ElementNumbers {
 public:
  ElementNumbers(const cpu::TwoSidedJob& job, cpu::Workspace& work)
      : wanted_(job.has_short_runs()) {
    if (!wanted_) return;
    numbers_ = work.columns.get<float>(kRows * kPitch);
    floats_ = work.plane.get<float>(kPitch);
  }

  /// False when memory ran out.
  bool good() const { return !wanted_ || (numbers_ != nullptr && floats_ != nullptr); }

  /// Makes numbers of a plane's elements [begin, end) available, and perhaps of further ones up to
  /// `last`. @param fill fill(channel, numbers) sets a channel's
  template <class F>
  HWY_INLINE void cover(std::int64_t run, std::int64_t begin, std::int64_t end, std::int64_t last,
                        const F& fill) {
    if (begin >= begin_ && end <= end_) return;
    begin_ = begin;
    end_ = std::min(begin + cpu::kStretchElements, last);
    for_each_channel(run, begin_, end_, [&](std::int64_t c, std::int64_t from, std::int64_t to) {
      float of_channel[kRows] = {};
      fill(c, of_channel);
      for (std::int64_t i = from - begin_; i < to - begin_; ++i) {
        for (int row = 0; row < kRows; ++row) numbers_[row * kPitch + i] = of_channel[row];
      }
    });
  }

  /// The numbers from the plane's element i on, which is covered, with a readable vector behind
  /// them.
  HWY_INLINE const float* row(int number, std::int64_t i) const {
    return numbers_ + number * kPitch + (i - begin_);
  }

  /// Room for a stretch of elements, with a readable vector behind it.
  float* floats() const { return floats_; }

  static constexpr std::int64_t kSlack = 256;  ///< readable elements behind a stretch

 private:
  static constexpr int kRows = 4;
  static constexpr std::int64_t kPitch = cpu::kStretchElements + kSlack;

  bool wanted_;
  float* numbers_ = nullptr;
  float* floats_ = nullptr;
  std::int64_t begin_ = 0;  ///< covered elements [begin_, end_), of any plane
  std::int64_t end_ = 0;
};

/// OneChannel with numbers of each element. x is the vector of elements from i on.
class EachChannel {
 public:
  /// Of a plane's elements from `begin` on, which are covered.
  EachChannel(const ElementNumbers& numbers, std::int64_t begin)
      : factor_(numbers.row(0, begin)),
        summand_(numbers.row(1, begin)),
        center_(numbers.row(2, begin)),
        inverse_(numbers.row(3, begin)) {}

  bool is_upper(float x, std::int64_t i) const {
    return codecs::is_upper(x, factor_[i], summand_[i]);
  }
  template <class DF>
  HWY_INLINE auto upper(DF df, hn::Vec<DF> x, std::int64_t i) const {
    return hn::Gt(hn::MulAdd(x, hn::LoadU(df, factor_ + i), hn::LoadU(df, summand_ + i)),
                  hn::Zero(df));
  }
  template <class DF>
  HWY_INLINE hn::Vec<DF> normal(DF df, hn::Vec<DF> x, std::int64_t i) const {
    return hn::Mul(hn::Sub(x, hn::LoadU(df, center_ + i)), hn::LoadU(df, inverse_ + i));
  }

 private:
  const float* factor_;
  const float* summand_;
  const float* center_;
  const float* inverse_;
};

/// Calls f(kind, x, i, count, readable, channel) for pieces of a plane's elements from `begin` on,
/// which lie at `x` with `readable` elements, of which `count` are wanted. `channel` is a
/// OneChannel or an EachChannel, the latter only with Float32; i is the piece's first element.
template <class S, class F>
HWY_INLINE void for_each_piece(const cpu::TwoSidedJob& job, ElementNumbers& numbers,
                               const typename S::Raw* HWY_RESTRICT x, std::int64_t begin,
                               std::int64_t count, std::int64_t readable, const F& f) {
  if (job.run == 0) {
    f(S(), x, std::int64_t{0}, count, readable, OneChannel(ChannelNumbers()));
    return;
  }
  const Description::Sides& sides = job.what.sides;
  if (!job.has_short_runs()) {
    for_each_channel(job.run, begin, begin + count,
                     [&](std::int64_t c, std::int64_t from, std::int64_t to) HWY_ATTR {
                       f(S(), x + (from - begin), from - begin, to - from,
                         readable - (from - begin), OneChannel(ChannelNumbers(sides, c)));
                     });
    return;
  }
  for (std::int64_t i = 0; i < count; i += cpu::kStretchElements) {
    const std::int64_t some = std::min(count - i, cpu::kStretchElements);
    numbers.cover(job.run, begin + i, begin + i + some, begin + readable,
                  [&](std::int64_t c, float* of_channel) {
                    const ChannelNumbers channel(sides, c);
                    of_channel[0] = channel.factor;
                    of_channel[1] = channel.summand;
                    of_channel[2] = channel.center;
                    of_channel[3] = channel.inverse;
                  });
    const EachChannel each(numbers, begin + i);
    if constexpr (std::is_same_v<S, Float32>) {
      f(Float32(), x + i, i, some, readable - i, each);
    } else {
      to_floats<S>(x + i, some, numbers.floats());
      f(Float32(), static_cast<const float*>(numbers.floats()), i, some,
        some + ElementNumbers::kSlack, each);
    }
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
