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

#include "codecs/cpu/group_quant/quantize-inl.h"
#include "codecs/cpu/group_quant/task-inl.h"
#include "codecs/cpu/group_quant/walk-inl.h"
#include "codecs/cpu/two_sided/channels-inl.h"
#include "codecs/cpu/two_sided/job.h"
#include "codecs/cpu/two_sided/ranges-inl.h"
#include "codecs/cpu/vectors/bits-inl.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/vectors/prefetch-inl.h"
#include "codecs/cpu/workspace.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The codes of vectors of a group's elements, as CodeBlocks::write wants them.
/// @param kFew codes have at most 5 bits: then those of a side never exceed their largest
/// (CodePacker in codecs/cuda/elements/quantize.cuh says why)
template <class Channel, bool kFew>
class SideCoder {
  using DF = hn::ScalableTag<float>;
  using DU = hn::RebindToUnsigned<DF>;

 public:
  HWY_INLINE SideCoder(const Channel& channel, const SideRanges& ranges, std::int64_t group,
                       int bits)
      : channel_(channel), top_(float_bits(kBias) + (1U << (15 + bits)) - 1) {
    for (int large = 0; large < 2; ++large) {
      const int side = large == channel.side_of_large() ? 1 : 0;
      lo_[large] = ranges.lo(group, side);
      scale_[large] = ranges.scale(group, side);
      const std::uint32_t bit = side == 1 ? 1U << (15 + bits) : 0;
      side_[large] = kFew ? kBias + static_cast<float>(bit) : float_of_bits(bit);
    }
  }

  template <class VF, class VU>
  HWY_INLINE VU operator()(VF x, VU draw, std::int64_t i) const {
    const DF df;
    const DU du;
    const auto is_large = channel_.large(df, x, i);
    const auto lo = chosen(is_large, lo_[1], lo_[0]);
    const auto scale = chosen(is_large, scale_[1], scale_[0]);
    const auto u = hn::Mul(hn::Sub(channel_.normal(df, x, i), lo), scale);
    const auto side = chosen(is_large, side_[1], side_[0]);
    if constexpr (kFew) return hn::Add(hn::BitCast(du, hn::Add(u, side)), draw);
    const auto code = hn::Add(hn::BitCast(du, hn::Add(u, hn::Set(df, kBias))), draw);
    return hn::Or(hn::Min(code, hn::Set(du, top_)), hn::BitCast(du, side));
  }

 private:
  template <class VF>
  static HWY_INLINE VF chosen(VF is_large, float large, float small) {
    const DF df;
    return hn::IfNegativeThenElse(is_large, hn::Set(df, large), hn::Set(df, small));
  }

  /// Adding it rounds to an integer and leaves that in the sum's low bits: codes have 7 bits at
  /// most.
  static constexpr float kBias = 0x1p23F;

  Channel channel_;
  std::uint32_t top_;  ///< the most that a sum may be
  // Of small and of large elements.
  float lo_[2];
  float scale_[2];
  float side_[2];  ///< the side's bit, as bits; if codes are few, the bias with it, a number
};

/// The codes of a poisoned group's elements, a plane's from `begin` on: their sides.
template <class S>
HWY_NOINLINE void write_sides_only(S, const cpu::TwoSidedJob& job,
                                   const typename S::Raw* HWY_RESTRICT x, std::int64_t begin,
                                   std::int64_t count, std::uint8_t* HWY_RESTRICT codes) {
  const Description::Sides& sides = job.what.sides;
  for (std::int64_t i = 0; i < count; ++i) {
    typename S::Bits pattern;
    std::memcpy(&pattern, x + i, sizeof pattern);
    float factor = 1.0F, summand = 0.0F;
    if (sides.factor != nullptr) {
      factor = sides.factor[(begin + i) / job.run];
      summand = sides.summand[(begin + i) / job.run];
    }
    const bool upper = is_upper(S::value(pattern), factor, summand);
    codes[i] = static_cast<std::uint8_t>(upper ? 1 << (job.bits - 1) : 0);
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
  if (ranges.any_poisoned() && ranges.poisoned(group)) {
    write_sides_only(S(), job, x, begin, count, codes);
    return;
  }
  for_each_piece<S>(job, numbers, x, begin, count, readable,
                    [&](auto kind, const auto* elements, std::int64_t i, std::int64_t n,
                        std::int64_t there, const auto& channel) HWY_ATTR {
                      using Channel = std::remove_cvref_t<decltype(channel)>;
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
