// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_GROUP_QUANT_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_GROUP_QUANT_ENCODE_INL_H_
#undef CINCH_CODECS_CPU_GROUP_QUANT_ENCODE_INL_H_
#else
#define CINCH_CODECS_CPU_GROUP_QUANT_ENCODE_INL_H_
#endif

#include <cstdint>

#include "codecs/cpu/group_quant/elements-inl.h"
#include "codecs/cpu/group_quant/job.h"
#include "codecs/cpu/group_quant/ranges-inl.h"
#include "codecs/cpu/group_quant/task-inl.h"
#include "codecs/cpu/group_quant/walk-inl.h"
#include "codecs/cpu/vectors/element_kinds-inl.h"
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
  cpu::Workspace& work = cpu::workspace();
  const GroupTask task(job.key, true, work);
  if (!task.good()) return false;
  const PlaneLayout& layout = job.what.layout;
  const auto encode_as = [&](auto kind, const GroupBatch& batch, const auto* x) {
    if (x == nullptr) return false;
    using Kind = decltype(kind);
    const int bits = job.codes.bits(batch.plane);
    const auto encode =
        job.zero_code ? encode_some_groups<Kind, true> : encode_some_groups<Kind, false>;
    const bool good = encode(job, x, batch.count, batch.plane * layout.plane_size() + batch.begin,
                             bits, task, out + job.sections.ranges + batch.group * 4,
                             out + job.codes.begin(batch.plane) + batch.begin / 8 * bits);
    if (!good) *representable = false;
    return true;
  };
  return for_each_batch(layout, sizeof(typename S::Raw), job.group, GroupRanges::kMost, source,
                        first, last, work, [&](const GroupBatch& batch, const std::byte* elements) {
                          if (job.roots) {
                            return encode_as(Float32(), batch,
                                             rooted_elements<S>(elements, batch.count, work.plane));
                          }
                          return encode_as(typename Worked<S>::Kind(), batch,
                                           Worked<S>::from(elements, batch.count, work.plane));
                        });
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
