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
  explicit OneChannel(const ChannelNumbers& numbers) : numbers_(numbers) {}

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

/// The same with numbers of each element. x is the vector of elements from i on.
class EachChannel {
 public:
  explicit EachChannel(const cpu::ChannelRoom& room) : room_(room) {}

  /// Takes the numbers of a plane's elements [begin, end).
  HWY_NOINLINE void fill(const Description::Sides& sides, std::int64_t begin, std::int64_t end) {
    cpu::for_each_channel(sides.run, begin, end,
                          [&](std::int64_t c, std::int64_t from, std::int64_t to) {
                            const ChannelNumbers numbers(sides, c);
                            for (std::int64_t i = from - begin; i < to - begin; ++i) {
                              room_.numbers(0)[i] = numbers.factor;
                              room_.numbers(1)[i] = numbers.summand;
                              room_.numbers(2)[i] = numbers.center;
                              room_.numbers(3)[i] = numbers.inverse;
                            }
                          });
  }

  bool is_upper(float x, std::int64_t i) const {
    return codecs::is_upper(x, room_.numbers(0)[i], room_.numbers(1)[i]);
  }
  template <class DF>
  HWY_INLINE auto upper(DF df, hn::Vec<DF> x, std::int64_t i) const {
    return hn::Gt(hn::MulAdd(x, row(df, 0, i), row(df, 1, i)), hn::Zero(df));
  }
  template <class DF>
  HWY_INLINE hn::Vec<DF> normal(DF df, hn::Vec<DF> x, std::int64_t i) const {
    return hn::Mul(hn::Sub(x, row(df, 2, i)), row(df, 3, i));
  }

 private:
  template <class DF>
  HWY_INLINE hn::Vec<DF> row(DF df, int number, std::int64_t i) const {
    return hn::LoadU(df, room_.numbers(number) + i);
  }

  cpu::ChannelRoom room_;
};

/// Calls f(kind, x, i, count, readable, channel) for pieces of a plane's elements from `begin` on,
/// which lie at `x` with `readable` elements, of which `count` are wanted. `channel` is a
/// OneChannel or an EachChannel, the latter only with Float32; i is the piece's first element.
template <class S, class F>
HWY_INLINE void for_each_piece(const cpu::TwoSidedJob& job, const cpu::ChannelRoom& room,
                               const typename S::Raw* HWY_RESTRICT x, std::int64_t begin,
                               std::int64_t count, std::int64_t readable, const F& f) {
  if (job.run == 0) {
    f(S(), x, std::int64_t{0}, count, readable, OneChannel(ChannelNumbers()));
    return;
  }
  const Description::Sides& sides = job.what.sides;
  if (!job.has_short_runs()) {
    cpu::for_each_channel(job.run, begin, begin + count,
                          [&](std::int64_t c, std::int64_t from, std::int64_t to) HWY_ATTR {
                            f(S(), x + (from - begin), from - begin, to - from,
                              readable - (from - begin), OneChannel(ChannelNumbers(sides, c)));
                          });
    return;
  }
  EachChannel each(room);
  for (std::int64_t i = 0; i < count; i += cpu::kStretchElements) {
    const std::int64_t some = std::min(count - i, cpu::kStretchElements);
    each.fill(sides, begin + i, begin + i + some);
    if constexpr (std::is_same_v<S, Float32>) {
      f(Float32(), x + i, i, some, readable - i, each);
    } else {
      to_floats<S>(x + i, some, room.floats());
      f(Float32(), static_cast<const float*>(room.floats()), i, some,
        some + cpu::ChannelRoom::kSlack, each);
    }
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
