// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_TWO_SIDED_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_TWO_SIDED_DECODE_INL_H_
#undef CINCH_CODECS_CPU_TWO_SIDED_DECODE_INL_H_
#else
#define CINCH_CODECS_CPU_TWO_SIDED_DECODE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codecs/cpu/group_quant/dithered-inl.h"
#include "codecs/cpu/group_quant/task-inl.h"
#include "codecs/cpu/group_quant/walk-inl.h"
#include "codecs/cpu/two_sided/channels-inl.h"
#include "codecs/cpu/two_sided/job.h"
#include "codecs/cpu/two_sided/values-inl.h"
#include "codecs/cpu/vectors/bits-inl.h"
#include "codecs/cpu/vectors/code_values-inl.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/workspace.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Decodes elements of a plane.
template <class S>
class SideDecoder {
  using Raw = typename S::Raw;

 public:
  SideDecoder(const cpu::TwoSidedJob& job, const std::byte* in, Reads reads, cpu::Workspace& work)
      : job_(job),
        in_(in),
        reads_(reads),
        draws_(job.subtractive && reads == Reads::values),
        task_(job.key, draws_, work),
        numbers_(job, work) {}

  /// False when memory ran out.
  bool good() const { return task_.good() && numbers_.good(); }

  /// Decodes elements [begin, end) of `plane` to x. @pre begin % 8 == 0
  HWY_NOINLINE void operator()(std::int64_t plane, std::int64_t begin, std::int64_t end,
                               bool past_caches, Raw* HWY_RESTRICT x) const {
    const std::int64_t stream = job_.codes_at(plane);
    for (std::int64_t i = begin; i < end; i += cpu::kStretchElements) {
      const std::int64_t stop = std::min(end, i + cpu::kStretchElements);
      const std::byte* const from = in_ + stream + i / 8 * job_.bits;
      const std::uint8_t* const codes = unpack_codes(
          job_.bits, from, job_.sections.end - (from - in_), 0, stop - i, task_.codes());
      const Target<Raw> target{x, stop - i, past_caches};
      if (reads_ == Reads::sign) {
        const float half = static_cast<float>(1 << (job_.bits - 1));
        write_values(S(), codes, stop - i, job_.bits, target, [half](auto df, auto c) HWY_ATTR {
          return hn::IfThenElseZero(hn::Ge(c, hn::Set(df, half)), hn::Set(df, 1.0F));
        });
      } else {
        const std::uint16_t* draws = nullptr;
        if (draws_) draws = task_.draw(plane * job_.what.layout.plane_size() + i, stop - i);
        write_groups(plane, i, stop, codes, draws, target);
      }
      x += stop - i;
    }
  }

 private:
  /// Decodes the values of elements [begin, end), at most a stretch.
  HWY_INLINE void write_groups(std::int64_t plane, std::int64_t begin, std::int64_t end,
                               const std::uint8_t* HWY_RESTRICT codes,
                               const std::uint16_t* HWY_RESTRICT draws, Target<Raw> target) const {
    const bool short_runs = job_.has_short_runs();
    if (short_runs) write_short_runs(plane, begin, end, codes, draws, target.x);
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t g = i / job_.group;
      const std::int64_t stop = std::min(end, (g + 1) * job_.group);
      const std::int64_t at = i - begin;
      const TwoSidedRanges ranges = ranges_of(plane, g);
      if (ranges.lower == poisoned_range()) {
        std::fill_n(target.x + at, stop - i, nan_of(S()));
      } else if (!short_runs) {
        write_channels(ranges, i, stop, codes + at, draws == nullptr ? draws : draws + at,
                       {target.x + at, end - i, target.past_caches});
      }
      i = stop;
    }
  }

  TwoSidedRanges ranges_of(std::int64_t plane, std::int64_t group) const {
    TwoSidedRanges ranges;
    std::memcpy(&ranges, in_ + job_.ranges_at(plane * job_.sections.groups + group), sizeof ranges);
    return ranges;
  }

  TwoSidedScale scale(std::int64_t channel) const {
    TwoSidedScale scale;
    std::memcpy(&scale,
                in_ + job_.sections.scales + channel * static_cast<std::int64_t>(sizeof scale),
                sizeof scale);
    return scale;
  }

  /// Writes `count` elements of one channel and group.
  template <class Kind>
  HWY_INLINE void write_piece(Kind kind, const TwoSidedRanges& ranges, const TwoSidedScale& scale,
                              const std::uint8_t* HWY_RESTRICT codes,
                              const std::uint16_t* HWY_RESTRICT draws, std::int64_t count,
                              Target<typename Kind::Raw> target) const {
    const SideValues value(ranges, job_.bits, scale);
    if (draws_) {
      write_dithered(kind, codes, draws, count, target, value);
    } else {
      write_sides(kind, codes, count, target, value);
    }
  }

  /// Writes elements [begin, end), all of a group. What is behind them is written later.
  HWY_INLINE void write_channels(const TwoSidedRanges& ranges, std::int64_t begin, std::int64_t end,
                                 const std::uint8_t* HWY_RESTRICT codes,
                                 const std::uint16_t* HWY_RESTRICT draws,
                                 Target<Raw> target) const {
    if (job_.run == 0) {
      write_piece(S(), ranges, {}, codes, draws, end - begin, target);
      return;
    }
    // Where channels begin at any places, few vectors could be written past the caches.
    const bool past_caches = target.past_caches && job_.run % kCacheLine == 0;
    for_each_channel(
        job_.run, begin, end, [&](std::int64_t c, std::int64_t from, std::int64_t to) HWY_ATTR {
          const std::int64_t at = from - begin;
          write_piece(S(), ranges, scale(c), codes + at, draws == nullptr ? draws : draws + at,
                      to - from, {target.x + at, target.writable - at, past_caches});
        });
  }

  /// Writes elements [begin, end), at most a stretch, where vectors hold those of several channels.
  HWY_NOINLINE void write_short_runs(std::int64_t plane, std::int64_t begin, std::int64_t end,
                                     const std::uint8_t* HWY_RESTRICT codes,
                                     const std::uint16_t* HWY_RESTRICT draws,
                                     Raw* HWY_RESTRICT x) const {
    const hn::ScalableTag<float> df;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(df));
    const std::int64_t count = end - begin;
    float* HWY_RESTRICT const z = numbers_.floats();
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t g = i / job_.group;
      const std::int64_t stop = std::min(end, (g + 1) * job_.group);
      const std::int64_t at = i - begin;
      write_piece(Float32(), ranges_of(plane, g), {}, codes + at,
                  draws == nullptr ? draws : draws + at, stop - i, {z + at, count - at, false});
      i = stop;
    }
    numbers_.cover(job_.run, begin, end, end, [&](std::int64_t c, float* of_channel) {
      const TwoSidedScale numbers = scale(c);
      of_channel[0] = numbers.spread;
      of_channel[1] = numbers.center;
    });
    const float* const spread = numbers_.row(0, begin);
    const float* const center = numbers_.row(1, begin);
    for (std::int64_t i = 0; i < count; i += lanes) {
      const auto product = hn::Mul(hn::LoadU(df, z + i), hn::LoadU(df, spread + i));
      hn::StoreU(hn::Add(product, hn::LoadU(df, center + i)), df, z + i);
    }
    if constexpr (std::is_same_v<S, Float32>) {
      std::copy_n(z, count, x);
    } else {
      from_floats<S>(z, count, x);
    }
  }

  /// Elements of 16 bits that fill a line of the caches. A multiple of what others do.
  static constexpr std::int64_t kCacheLine = 32;

  const cpu::TwoSidedJob& job_;
  const std::byte* in_;
  Reads reads_;
  bool draws_;
  GroupTask task_;
  mutable ElementNumbers numbers_;
};

/// Decodes groups [first, last), counted over all planes. @pre planes are dense
/// @return false when memory ran out
bool decode_side_groups(const cpu::TwoSidedJob& job, const std::byte* in, void* target, Reads reads,
                        std::int64_t first, std::int64_t last) {
  return with_element(job.what.type, [&](auto kind) {
    using S = decltype(kind);
    const SideDecoder<S> decoder(job, in, reads, cpu::workspace());
    if (!decoder.good()) return false;
    decode_dense(job.what.layout, job.group, static_cast<typename S::Raw*>(target), first, last,
                 job.past_caches, decoder);
    return true;
  });
}

/// Decodes planes [first, last) of `layout`, which has the description's logical order.
/// @return false when memory ran out
bool decode_side_planes(const cpu::TwoSidedJob& job, const PlaneLayout& layout, const std::byte* in,
                        void* target, Reads reads, std::int64_t first, std::int64_t last) {
  return with_element(job.what.type, [&](auto kind) {
    using S = decltype(kind);
    const SideDecoder<S> decoder(job, in, reads, cpu::workspace());
    return decoder.good() && decode_windows(layout, job.what.layout.plane_size(),
                                            static_cast<typename S::Raw*>(target), first, last,
                                            cpu::workspace(), decoder);
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
