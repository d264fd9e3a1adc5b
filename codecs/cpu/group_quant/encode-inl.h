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

#include "codecs/cpu/element_kinds-inl.h"
#include "codecs/cpu/group_quant/elements-inl.h"
#include "codecs/cpu/group_quant/job.h"
#include "codecs/cpu/group_quant/ranges-inl.h"
#include "codecs/cpu/group_quant/task-inl.h"
#include "codecs/cpu/stretches.h"
#include "codecs/cpu/workspace.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
