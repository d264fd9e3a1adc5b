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

#include "codecs/cpu/group_quant/elements-inl.h"
#include "codecs/cpu/group_quant/job.h"
#include "codecs/cpu/group_quant/task-inl.h"
#include "codecs/cpu/group_quant/walk-inl.h"
#include "codecs/cpu/stretches.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
#include "codecs/cpu/workspace.h"
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

template <class S>
bool decode_groups_of(const cpu::GroupQuantJob& job, const std::byte* in, void* target,
                      std::int64_t first, std::int64_t last) {
  const GroupTask task(job.key, job.has_draws(), cpu::workspace());
  if (!task.good()) return false;
  decode_dense(job.what.layout, job.group, static_cast<typename S::Raw*>(target), first, last,
               job.past_caches,
               [&](std::int64_t plane, std::int64_t begin, std::int64_t end, bool past_caches,
                   typename S::Raw* x) {
                 decode_elements(S(), job, in, plane, begin, end, task, past_caches, x);
               });
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
  cpu::Workspace& work = cpu::workspace();
  const GroupTask task(job.key, job.has_draws(), work);
  return task.good() &&
         decode_windows(layout, job.what.layout.plane_size(), static_cast<typename S::Raw*>(target),
                        first, last, work,
                        [&](std::int64_t plane, std::int64_t begin, std::int64_t end,
                            bool past_caches, typename S::Raw* x) {
                          decode_elements(S(), job, in, plane, begin, end, task, past_caches, x);
                        });
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
