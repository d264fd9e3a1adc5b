// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_GROUP_QUANT_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_GROUP_QUANT_ELEMENTS_INL_H_
#undef CINCH_CODECS_CPU_GROUP_QUANT_ELEMENTS_INL_H_
#else
#define CINCH_CODECS_CPU_GROUP_QUANT_ELEMENTS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/group_quant/dithered-inl.h"
#include "codecs/cpu/group_quant/job.h"
#include "codecs/cpu/group_quant/quantize-inl.h"
#include "codecs/cpu/group_quant/ranges-inl.h"
#include "codecs/cpu/group_quant/roots-inl.h"
#include "codecs/cpu/group_quant/task-inl.h"
#include "codecs/cpu/group_quant/zero_code-inl.h"
#include "codecs/cpu/vectors/bits-inl.h"
#include "codecs/cpu/vectors/code_values-inl.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/vectors/prefetch-inl.h"
#include "hwy/highway.h"

/// group_quant on the elements of a plane that lie in logical order.
HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Encodes consecutive groups of a plane, `count` elements at `x` from logical index `first` on:
/// codes of `bits` bits to `out`, ranges to `ranges`. @tparam kZeroCode job.zero_code
/// @return whether all elements are representable
template <class S, bool kZeroCode = false>
bool encode_some_groups(const cpu::GroupQuantJob& job, const typename S::Raw* HWY_RESTRICT x,
                        std::int64_t count, std::int64_t first, int bits, const GroupTask& task,
                        std::byte* ranges, std::byte* out) {
  const std::int64_t group = job.group;
  const std::int64_t groups = (count - 1) / group + 1;
  GroupRanges affine;
  bool representable = true;
  if constexpr (kZeroCode) {
    representable = find_above_zero<S>(affine, x, count, group, bits);
  } else {
    affine.find(S(), x, count, group, bits, job.floor);
  }
  std::memcpy(ranges, affine.ranges(), groups * sizeof(AffineRange));

  for (std::int64_t begin = 0; begin < count; begin += cpu::kStretchElements) {
    const std::int64_t end = std::min(count, begin + cpu::kStretchElements);
    const std::uint16_t* const draws = task.draw(first + begin, end - begin);
    std::int64_t i = begin;
    for (std::int64_t g = begin / group; i < end; ++g) {
      const std::int64_t some = std::min(end, (g + 1) * group) - i;
      std::uint8_t* const codes = task.codes() + (i - begin);
      prefetch(x + i + 2 * cpu::kStretchElements, some);
      quantize_group<S, kZeroCode>(x + i, draws + (i - begin), some, affine.lo(g), affine.scale(g),
                                   bits, job.floor, codes);
      if (affine.any_poisoned() && affine.poisoned(g)) {
        if constexpr (kZeroCode) {
          put_signs<S>(x + i, some, codes);
        } else {
          std::fill_n(codes, some, 0);
        }
      }
      i += some;
    }
    const std::int64_t whole = (end - begin) / 8;
    pack_codes(bits, task.codes(), whole, out);
    out += whole * bits;
    if (end - begin > whole * 8) {
      pack_tail(bits, task.codes() + whole * 8, end - begin - whole * 8, out);
    }
  }
  return representable && !affine.any_poisoned();
}

/// Decodes elements [begin, end) of `plane`. @pre begin % 8 == 0
template <class S>
HWY_NOINLINE void decode_elements(S /*kind*/, const cpu::GroupQuantJob& job, const std::byte* in,
                                  std::int64_t plane, std::int64_t begin, std::int64_t end,
                                  const GroupTask& task, bool past_caches,
                                  typename S::Raw* HWY_RESTRICT x) {
  const int bits = job.codes.bits(plane);
  const std::byte* const ranges = in + job.sections.ranges + plane * job.sections.groups * 4;
  const std::int64_t stream = job.codes.begin(plane);
  for (std::int64_t i = begin; i < end;) {
    const std::int64_t stop = std::min(end, i + cpu::kStretchElements);
    const std::byte* const from = in + stream + i / 8 * bits;
    const std::uint8_t* code =
        unpack_codes(bits, from, job.sections.end - (from - in), 0, stop - i, task.codes());
    const std::uint16_t* draws = nullptr;
    if (job.has_draws()) draws = task.draw(plane * job.what.layout.plane_size() + i, stop - i);
    for (std::int64_t g = i / job.group; i < stop; ++g) {
      const std::int64_t some = std::min(stop, (g + 1) * job.group) - i;
      AffineRange range = range_of_signs();
      if (!job.signs) std::memcpy(&range, ranges + g * 4, 4);
      if (range == poisoned_range()) {
        std::fill_n(x, some, nan_of(S()));
      } else {
        const float lo = float_of_bf16(range.lo);
        const float step = float_of_bf16(range.step);
        const Target<typename S::Raw> target{x, some, past_caches};
        const DitheredValues dithered(lo, step);
        const auto plain = [lo, step](auto df, auto c) HWY_ATTR {
          return hn::Add(hn::Set(df, lo), hn::Mul(hn::Set(df, step), c));
        };
        if (job.roots) {
          write_dithered(S(), code, draws, some, target, SquaredRoots(lo, step));
        } else if (job.zero_code && draws != nullptr) {
          write_dithered(S(), code, draws, some, target, ZeroCoded(dithered));
        } else if (job.zero_code) {
          write_values(S(), code, some, bits, target, ZeroCoded(plain));
        } else if (draws != nullptr) {
          write_dithered(S(), code, draws, some, target, dithered);
        } else {
          write_values(S(), code, some, bits, target, plain);
        }
      }
      code += some;
      if (draws != nullptr) draws += some;
      x += some;
      i += some;
    }
  }
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
