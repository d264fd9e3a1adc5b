// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_GROUP_QUANT_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_GROUP_QUANT_ENCODE_INL_H_
#undef CINCH_CODECS_CPU_GROUP_QUANT_ENCODE_INL_H_
#else
#define CINCH_CODECS_CPU_GROUP_QUANT_ENCODE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "codecs/cpu/bits-inl.h"
#include "codecs/cpu/element_kinds-inl.h"
#include "codecs/cpu/group_quant/job.h"
#include "codecs/cpu/group_quant/quantize-inl.h"
#include "codecs/cpu/group_quant/ranges-inl.h"
#include "codecs/cpu/group_quant/task-inl.h"
#include "codecs/cpu/prefetch-inl.h"
#include "codecs/cpu/stretches.h"
#include "codecs/cpu/workspace.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Encodes consecutive groups of a plane, `count` elements at `x` from logical index `first` on:
/// codes of `bits` bits to `out`, ranges to `ranges`. @return false when a group is poisoned
template <class S>
bool encode_some_groups(const cpu::GroupQuantJob& job, const typename S::Raw* HWY_RESTRICT x,
                        std::int64_t count, std::int64_t first, int bits, const GroupTask& task,
                        std::byte* ranges, std::byte* out) {
  const std::int64_t group = job.group;
  const std::int64_t groups = (count - 1) / group + 1;
  GroupRanges affine;
  affine.find(S(), x, count, group, bits);
  std::memcpy(ranges, affine.ranges(), groups * sizeof(AffineRange));

  for (std::int64_t begin = 0; begin < count; begin += cpu::kStretchElements) {
    const std::int64_t end = std::min(count, begin + cpu::kStretchElements);
    const std::uint16_t* const draws = task.draw(first + begin, end - begin);
    std::int64_t i = begin;
    for (std::int64_t g = begin / group; i < end; ++g) {
      const std::int64_t some = std::min(end, (g + 1) * group) - i;
      std::uint8_t* const codes = task.codes() + (i - begin);
      prefetch(x + i + 2 * cpu::kStretchElements, some);
      quantize_group<S>(x + i, draws + (i - begin), some, affine.lo(g), affine.scale(g), bits,
                        codes);
      if (affine.any_poisoned() && affine.poisoned(g)) std::fill_n(codes, some, 0);
      i += some;
    }
    const std::int64_t whole = (end - begin) / 8;
    pack_codes(bits, task.codes(), whole, out);
    out += whole * bits;
    if (end - begin > whole * 8) {
      pack_tail(bits, task.codes() + whole * 8, end - begin - whole * 8, out);
    }
  }
  return !affine.any_poisoned();
}

/// The kind as which elements of kind S are encoded, and these elements; null when memory ran out.
template <class S>
struct Worked {
  using Kind = S;
  static const typename S::Raw* from(const std::byte* x, std::int64_t /*count*/, cpu::Buffer&) {
    return reinterpret_cast<const typename S::Raw*>(x);
  }
};
template <>
struct Worked<Float64> {
  using Kind = Float32;
  static const float* from(const std::byte* x, std::int64_t count, cpu::Buffer& room) {
    auto* const floats = room.get<float>(count);
    if (floats != nullptr) narrow_doubles(reinterpret_cast<const double*>(x), count, floats);
    return floats;
  }
};

template <class S>
bool encode_groups_of(const cpu::GroupQuantJob& job, const void* source, std::byte* out,
                      std::int64_t first, std::int64_t last, bool* representable) {
  const PlaneLayout& layout = job.what.layout;
  const std::int64_t size = layout.plane_size();
  const std::int64_t groups = job.sections.groups;
  const std::int64_t batch =
      std::clamp<std::int64_t>(cpu::kStretchElements / job.group, 1, GroupRanges::kMost);
  cpu::Workspace& work = cpu::workspace();
  const GroupTask task(job.key, true, work);
  if (!task.good()) return false;

  const std::int64_t end = last / groups * size + last % groups * job.group;
  cpu::StretchReader reader(layout, sizeof(typename S::Raw), source, end, work.tile);
  for (std::int64_t g = first; g < last;) {
    const std::int64_t plane = g / groups;
    const std::int64_t in_plane = g % groups;
    const std::int64_t some = std::min({batch, last - g, groups - in_plane});
    const std::int64_t begin = in_plane * job.group;
    const std::int64_t count = std::min(some * job.group, size - begin);
    const int bits = job.codes.bits(plane);
    const std::byte* const read = reader.read(plane * size + begin, count);
    if (read == nullptr) return false;
    const auto* const x = Worked<S>::from(read, count, work.plane);
    if (x == nullptr) return false;
    const bool good = encode_some_groups<typename Worked<S>::Kind>(
        job, x, count, plane * size + begin, bits, task, out + job.sections.ranges + g * 4,
        out + job.codes.begin(plane) + begin / 8 * bits);
    if (!good) *representable = false;
    g += some;
  }
  return true;
}

/// Encodes groups [first, last), counted over all planes.
/// @return false when memory ran out
bool encode_groups(const cpu::GroupQuantJob& job, const void* source, std::byte* out,
                   std::int64_t first, std::int64_t last, bool* representable) {
  return with_any_element(job.what.type, [&](auto kind) {
    return encode_groups_of<decltype(kind)>(job, source, out, first, last, representable);
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
