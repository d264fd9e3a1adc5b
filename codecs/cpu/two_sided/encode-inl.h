// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_TWO_SIDED_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_TWO_SIDED_ENCODE_INL_H_
#undef CINCH_CODECS_CPU_TWO_SIDED_ENCODE_INL_H_
#else
#define CINCH_CODECS_CPU_TWO_SIDED_ENCODE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codecs/cpu/bits-inl.h"
#include "codecs/cpu/element_kinds-inl.h"
#include "codecs/cpu/group_quant/quantize-inl.h"
#include "codecs/cpu/group_quant/task-inl.h"
#include "codecs/cpu/group_quant/walk-inl.h"
#include "codecs/cpu/prefetch-inl.h"
#include "codecs/cpu/two_sided/channels-inl.h"
#include "codecs/cpu/two_sided/job.h"
#include "codecs/cpu/two_sided/ranges-inl.h"
#include "codecs/cpu/workspace.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The codes of vectors of a group's elements, as CodeBlocks::write wants them.
/// @param kFew codes have at most 5 bits: then those of a side never exceed their largest
/// (CodePacker in codecs/cuda/quantize.cuh says why)
template <class Channel, bool kFew>
class SideCoder {
  using DF = hn::ScalableTag<float>;
  using DU = hn::RebindToUnsigned<DF>;

 public:
  HWY_INLINE SideCoder(const Channel& channel, const SideRanges& ranges, std::int64_t group,
                       int bits)
      : channel_(channel), side_(1U << (15 + bits)) {
    for (int side = 0; side < 2; ++side) {
      lo_[side] = ranges.lo(group, side);
      scale_[side] = ranges.scale(group, side);
    }
  }

  template <class VF, class VU>
  HWY_INLINE VU operator()(VF x, VU draw, std::int64_t i) const {
    const DF df;
    const DU du;
    const auto upper = channel_.upper(df, x, i);
    const auto lo = hn::IfThenElse(upper, hn::Set(df, lo_[1]), hn::Set(df, lo_[0]));
    const auto scale = hn::IfThenElse(upper, hn::Set(df, scale_[1]), hn::Set(df, scale_[0]));
    const auto u = hn::Mul(hn::Sub(channel_.normal(df, x, i), lo), scale);
    // Adding 2^23 rounds to an integer and leaves it in the sum's low bits: codes have 7 bits at
    // most. If few, an even number more adds the side.
    const float bias = 0x1p23F;
    if constexpr (kFew) {
      const auto with_side =
          hn::IfThenElse(upper, hn::Set(df, bias + static_cast<float>(side_)), hn::Set(df, bias));
      return hn::Add(hn::BitCast(du, hn::Add(u, with_side)), draw);
    } else {
      const auto code = hn::Add(hn::BitCast(du, hn::Add(u, hn::Set(df, bias))), draw);
      const auto top = hn::Set(du, float_bits(bias) + side_ - 1);
      const auto side = hn::IfThenElseZero(hn::RebindMask(du, upper), hn::Set(du, side_));
      return hn::Or(hn::Min(code, top), side);
    }
  }

 private:
  Channel channel_;
  std::uint32_t side_;  ///< the side's bit
  float lo_[2];
  float scale_[2];
};

/// The codes of a poisoned group: its elements' sides.
template <class S, class Channel>
HWY_NOINLINE void write_sides_only(S, const typename S::Raw* HWY_RESTRICT x, std::int64_t count,
                                   int bits, const Channel& channel,
                                   std::uint8_t* HWY_RESTRICT codes) {
  for (std::int64_t i = 0; i < count; ++i) {
    typename S::Bits pattern;
    std::memcpy(&pattern, x + i, sizeof pattern);
    const bool upper = channel.is_upper(S::value(pattern), i);
    codes[i] = static_cast<std::uint8_t>(upper ? 1 << (bits - 1) : 0);
  }
}

/// Writes the codes of `count` of a plane's elements from `begin` on, which lie at `x`; all are of
/// the same group.
template <class S>
HWY_INLINE void write_side_codes(const cpu::TwoSidedJob& job, ElementNumbers& numbers,
                                 const typename S::Raw* HWY_RESTRICT x, std::int64_t begin,
                                 std::int64_t count, std::int64_t readable,
                                 const std::uint16_t* HWY_RESTRICT draws, const SideRanges& ranges,
                                 std::int64_t group, std::uint8_t* HWY_RESTRICT codes) {
  const bool poisoned = ranges.any_poisoned() && ranges.poisoned(group);
  for_each_piece<S>(job, numbers, x, begin, count, readable,
                    [&](auto kind, const auto* elements, std::int64_t i, std::int64_t n,
                        std::int64_t there, const auto& channel) HWY_ATTR {
                      using Channel = std::remove_cvref_t<decltype(channel)>;
                      if (poisoned) {
                        write_sides_only(kind, elements, n, job.bits, channel, codes + i);
                        return;
                      }
                      const auto as_they_are = [](auto v) HWY_ATTR { return v; };
                      if (job.bits <= 5) {
                        const SideCoder<Channel, true> coder(channel, ranges, group, job.bits);
                        CodeBlocks<decltype(kind)>::write(elements, draws + i, n, there, codes + i,
                                                          coder, as_they_are);
                      } else {
                        const SideCoder<Channel, false> coder(channel, ranges, group, job.bits);
                        CodeBlocks<decltype(kind)>::write(elements, draws + i, n, there, codes + i,
                                                          coder, as_they_are);
                      }
                    });
}

/// Encodes consecutive groups of a plane, which lie at `x`. @return false when one is poisoned
template <class S>
bool encode_some_sides(const cpu::TwoSidedJob& job, ElementNumbers& numbers,
                       const GroupBatch& batch, const typename S::Raw* HWY_RESTRICT x,
                       const GroupTask& task, std::byte* out) {
  SideRanges ranges;
  ranges.find(S(), job, numbers, x, batch.begin, batch.count);
  const std::int64_t groups = (batch.count - 1) / job.group + 1;
  std::memcpy(out + job.ranges_at(batch.group), ranges.ranges(), groups * sizeof(TwoSidedRanges));

  std::byte* to = out + job.codes_at(batch.plane) + batch.begin / 8 * job.bits;
  const std::int64_t first = batch.plane * job.what.layout.plane_size() + batch.begin;
  for (std::int64_t begin = 0; begin < batch.count; begin += cpu::kStretchElements) {
    const std::int64_t end = std::min(batch.count, begin + cpu::kStretchElements);
    const std::uint16_t* const draws = task.draw(first + begin, end - begin);
    std::int64_t i = begin;
    for (std::int64_t g = begin / job.group; i < end; ++g) {
      const std::int64_t some = std::min(end, (g + 1) * job.group) - i;
      prefetch(x + i + 2 * cpu::kStretchElements, some);
      write_side_codes<S>(job, numbers, x + i, batch.begin + i, some, batch.count - i,
                          draws + (i - begin), ranges, g, task.codes() + (i - begin));
      i += some;
    }
    const std::int64_t whole = (end - begin) / 8;
    pack_codes(job.bits, task.codes(), whole, to);
    to += whole * job.bits;
    if (end - begin > whole * 8) {
      pack_tail(job.bits, task.codes() + whole * 8, end - begin - whole * 8, to);
    }
  }
  return !ranges.any_poisoned();
}

template <class S>
bool encode_sides_of(const cpu::TwoSidedJob& job, const void* source, std::byte* out,
                     std::int64_t first, std::int64_t last, bool* representable) {
  cpu::Workspace& work = cpu::workspace();
  const GroupTask task(job.key, true, work);
  ElementNumbers numbers(job, work);
  if (!task.good() || !numbers.good()) return false;
  return for_each_batch(job.what.layout, sizeof(typename S::Raw), job.group, SideRanges::kMost,
                        source, first, last, work,
                        [&](const GroupBatch& batch, const std::byte* elements) {
                          const auto* const x = reinterpret_cast<const typename S::Raw*>(elements);
                          if (!encode_some_sides<S>(job, numbers, batch, x, task, out))
                            *representable = false;
                          return true;
                        });
}

/// Encodes groups [first, last), counted over all planes.
/// @return false when memory ran out
bool encode_sides(const cpu::TwoSidedJob& job, const void* source, std::byte* out,
                  std::int64_t first, std::int64_t last, bool* representable) {
  return with_element(job.what.type, [&](auto kind) {
    return encode_sides_of<decltype(kind)>(job, source, out, first, last, representable);
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
