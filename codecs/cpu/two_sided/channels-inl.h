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
#include <limits>
#include <type_traits>

#include "codecs/cpu/two_sided/job.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/workspace.h"
#include "codecs/formats/two_sided.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Floats that are not NaN, numbered in their order.
HWY_INLINE std::int64_t number_of(float x) {
  const auto bits = static_cast<std::int64_t>(float_bits(x));
  return bits < 0x80000000 ? bits : 0x80000000 - bits;
}
HWY_INLINE float float_numbered(std::int64_t number) {
  return float_of_bits(static_cast<std::uint32_t>(number >= 0 ? number : 0x80000000 - number));
}

/// SideChannel::threshold: is_upper changes at most once from one finite number to the next.
inline float threshold_of(float factor, float summand, bool falls) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto is_small = [&](std::int64_t number) HWY_ATTR {
    return is_upper(float_numbered(number), factor, summand) == falls;
  };
  std::int64_t small = number_of(-kInfinity), large = number_of(kInfinity);  // not computed
  const auto take = [&](std::int64_t number) HWY_ATTR {
    if (number > small && number < large) (is_small(number) ? small : large) = number;
  };
  const auto guess =
      static_cast<float>(-static_cast<double>(summand) / static_cast<double>(factor));
  if (guess == guess) {
    take(number_of(guess));
    take(number_of(guess) + 1);
    take(number_of(guess) - 1);
  }
  while (large - small > 1) take(small + (large - small) / 2);
  return float_numbered(small);
}

/// Computes the numbers of channels [first, last).
void find_channels(const Description::Sides& sides, std::int64_t first, std::int64_t last,
                   cpu::SideChannel* channels) {
  for (std::int64_t c = first; c < last; ++c) {
    cpu::SideChannel channel;
    if (sides.factor != nullptr) {
      channel.falls = sides.factor[c] < 0.0F;
      channel.threshold = threshold_of(sides.factor[c], sides.summand[c], channel.falls);
    }
    if (sides.center != nullptr) {
      channel.center = sides.center[c];
      channel.inverse = inverse_spread(channel.center, sides.spread[c]);
    }
    channels[c] = channel;
  }
}

/// Sides and normalized vectors of elements of one channel. Sides of NaNs and infinities are
/// undefined.
class OneChannel {
 public:
  HWY_INLINE explicit OneChannel(const cpu::SideChannel& channel) : channel_(channel) {}

  /// The side of large elements: 1 is the upper one.
  int side_of_large() const { return channel_.falls ? 0 : 1; }

  /// A vector with the sign bit of each large element set.
  template <class DF>
  HWY_INLINE hn::Vec<DF> large(DF df, hn::Vec<DF> x, std::int64_t /*i*/) const {
    return hn::Sub(hn::Set(df, channel_.threshold), x);
  }
  template <class DF>
  HWY_INLINE hn::Vec<DF> normal(DF df, hn::Vec<DF> x, std::int64_t /*i*/) const {
    return hn::Mul(hn::Sub(x, hn::Set(df, channel_.center)), hn::Set(df, channel_.inverse));
  }

 private:
  cpu::SideChannel channel_;
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

/// OneChannel with numbers of each element. x is the vector of elements from i on. Elements of the
/// upper side are called large here.
class EachChannel {
 public:
  /// Of a plane's elements from `begin` on, which are covered.
  EachChannel(const ElementNumbers& numbers, std::int64_t begin)
      : threshold_(numbers.row(0, begin)),
        flip_(numbers.row(1, begin)),
        center_(numbers.row(2, begin)),
        inverse_(numbers.row(3, begin)) {}

  int side_of_large() const { return 1; }

  template <class DF>
  HWY_INLINE hn::Vec<DF> large(DF df, hn::Vec<DF> x, std::int64_t i) const {
    return hn::Xor(hn::Sub(hn::LoadU(df, threshold_ + i), x), hn::LoadU(df, flip_ + i));
  }
  template <class DF>
  HWY_INLINE hn::Vec<DF> normal(DF df, hn::Vec<DF> x, std::int64_t i) const {
    return hn::Mul(hn::Sub(x, hn::LoadU(df, center_ + i)), hn::LoadU(df, inverse_ + i));
  }

 private:
  const float* threshold_;
  const float* flip_;  ///< -0 where SideChannel::falls, else 0
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
    f(S(), x, std::int64_t{0}, count, readable, OneChannel(cpu::SideChannel()));
    return;
  }
  if (!job.has_short_runs()) {
    for_each_channel(job.run, begin, begin + count,
                     [&](std::int64_t c, std::int64_t from, std::int64_t to) HWY_ATTR {
                       f(S(), x + (from - begin), from - begin, to - from,
                         readable - (from - begin), OneChannel(job.channels[c]));
                     });
    return;
  }
  for (std::int64_t i = 0; i < count; i += cpu::kStretchElements) {
    const std::int64_t some = std::min(count - i, cpu::kStretchElements);
    numbers.cover(job.run, begin + i, begin + i + some, begin + readable,
                  [&](std::int64_t c, float* of_channel) {
                    const cpu::SideChannel& channel = job.channels[c];
                    of_channel[0] = channel.threshold;
                    of_channel[1] = channel.falls ? -0.0F : 0.0F;
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
