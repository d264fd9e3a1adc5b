// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_GROUP_QUANT_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_GROUP_QUANT_DECODE_INL_H_
#undef CINCH_CODECS_CPU_GROUP_QUANT_DECODE_INL_H_
#else
#define CINCH_CODECS_CPU_GROUP_QUANT_DECODE_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "codecs/cpu/element_kinds-inl.h"
#include "codecs/cpu/group_quant/elements-inl.h"
#include "codecs/cpu/group_quant/job.h"
#include "codecs/cpu/group_quant/task-inl.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/stream.h"
#include "codecs/cpu/stretches.h"
#include "codecs/cpu/workspace.h"
#include "codecs/layout.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// decode_elements by way of floats, a stretch at a time.
inline HWY_NOINLINE void decode_elements(Float64 /*kind*/, const cpu::GroupQuantJob& job,
                                         const std::byte* in, std::int64_t plane,
                                         std::int64_t begin, std::int64_t end,
                                         const GroupTask& task, bool /*past_caches*/,
                                         double* HWY_RESTRICT x) {
  HWY_ALIGN float floats[cpu::kStretchElements];
  for (std::int64_t i = begin; i < end; i += cpu::kStretchElements) {
    const std::int64_t stop = std::min(end, i + cpu::kStretchElements);
    decode_elements(Float32(), job, in, plane, i, stop, task, false, floats);
    widen_floats(floats, stop - i, x);
    x += stop - i;
  }
}

/// Decodes elements [begin, end), by logical index, to `x`. May write 8 elements before `x`.
template <class S>
void decode_stretch(const cpu::GroupQuantJob& job, const std::byte* in, std::int64_t begin,
                    std::int64_t end, const GroupTask& task, typename S::Raw* HWY_RESTRICT x) {
  const std::int64_t size = job.what.layout.plane_size();
  while (begin < end) {
    const std::int64_t plane = begin / size;
    const std::int64_t from = begin % size;
    const std::int64_t stop = std::min(end - plane * size, size);
    decode_elements(S(), job, in, plane, from / 8 * 8, stop, task, false, x - from % 8);
    x += stop - from;
    begin = plane * size + stop;
  }
}

template <class S>
bool decode_groups_of(const cpu::GroupQuantJob& job, const std::byte* in, void* target,
                      std::int64_t first, std::int64_t last) {
  const PlaneLayout& layout = job.what.layout;
  const std::int64_t size = layout.plane_size();
  const std::int64_t groups = job.sections.groups;
  const bool past_caches = cpu::writes_past_caches(
      layout.elements() * static_cast<std::int64_t>(sizeof(typename S::Raw)));
  const GroupTask task(job.key, job.subtractive, cpu::workspace());
  if (!task.good()) return false;
  for (std::int64_t g = first; g < last;) {
    const std::int64_t plane = g / groups;
    const std::int64_t in_plane = g % groups;
    const std::int64_t some = std::min(last - g, groups - in_plane);
    const std::int64_t begin = in_plane * job.group;
    auto* const x = static_cast<typename S::Raw*>(target) + plane_offset(layout, plane) + begin;
    decode_elements(S(), job, in, plane, begin, std::min(size, begin + some * job.group), task,
                    past_caches, x);
    g += some;
  }
  if (past_caches) hwy::FlushStream();
  return true;
}

/// Decodes groups [first, last), counted over all planes. @pre planes are dense
/// @return false when memory ran out
bool decode_groups(const cpu::GroupQuantJob& job, const std::byte* in, void* target,
                   std::int64_t first, std::int64_t last) {
  return with_any_element(job.what.type, [&](auto kind) {
    return decode_groups_of<decltype(kind)>(job, in, target, first, last);
  });
}

template <class S>
bool decode_planes_of(const cpu::GroupQuantJob& job, const PlaneLayout& layout, const std::byte* in,
                      void* target, std::int64_t first, std::int64_t last) {
  using Raw = typename S::Raw;
  const std::int64_t size = layout.plane_size();
  const std::int64_t window = cpu::planes_per_window(layout, sizeof(Raw));
  cpu::Workspace& work = cpu::workspace();
  const GroupTask task(job.key, job.subtractive, work);
  auto* const tile = work.tile.get<Raw>(window * size + 8);
  if (!task.good() || tile == nullptr) return false;
  for (std::int64_t p = first; p < last; p += window) {
    const std::int64_t count = std::min(window, last - p);
    decode_stretch<S>(job, in, p * size, (p + count) * size, task, tile + 8);
    cpu::scatter_planes(layout, sizeof(Raw), tile + 8, p, count, target);
  }
  return true;
}

/// Decodes planes [first, last) of `layout`, which has the description's logical order.
/// @return false when memory ran out
bool decode_planes(const cpu::GroupQuantJob& job, const PlaneLayout& layout, const std::byte* in,
                   void* target, std::int64_t first, std::int64_t last) {
  return with_any_element(job.what.type, [&](auto kind) {
    return decode_planes_of<decltype(kind)>(job, layout, in, target, first, last);
  });
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
