// SPDX-License-Identifier: Apache-2.0
// Per-target include guard, as Highway's foreach_target wants it.
#if defined(CINCH_CODECS_CPU_GROUP_QUANT_WALK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CINCH_CODECS_CPU_GROUP_QUANT_WALK_INL_H_
#undef CINCH_CODECS_CPU_GROUP_QUANT_WALK_INL_H_
#else
#define CINCH_CODECS_CPU_GROUP_QUANT_WALK_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"
#include "codecs/cpu/group_quant/job.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/stretches.h"
#include "codecs/cpu/workspace.h"
#include "codecs/layout.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

/// How a task of a codec with groups goes through its elements, some groups of a plane at a time.
HWY_BEFORE_NAMESPACE();
namespace cinch::codecs::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Some neighbouring groups of a plane.
struct GroupBatch {
  std::int64_t plane;
  std::int64_t group;  ///< the first one, counted over all planes
  std::int64_t begin;  ///< its first element, in the plane
  std::int64_t count;  ///< elements
};

/// Calls encode(batch, elements) for all groups of [first, last), which are counted over all
/// planes: at most `most` groups, and no more than kStretchElements elements if that is two groups
/// or more. @return false when memory ran out, or `encode` returned false
template <class F>
bool for_each_batch(const PlaneLayout& layout, std::size_t element_size, std::int64_t group,
                    std::int64_t most, const void* source, std::int64_t first, std::int64_t last,
                    cpu::Workspace& work, const F& encode) {
  const std::int64_t size = layout.plane_size();
  const std::int64_t groups = (size - 1) / group + 1;
  const std::int64_t batch = std::clamp<std::int64_t>(cpu::kStretchElements / group, 1, most);
  const std::int64_t end = last / groups * size + last % groups * group;
  cpu::StretchReader reader(layout, element_size, source, end, work.tile);
  for (std::int64_t g = first; g < last;) {
    const std::int64_t plane = g / groups;
    const std::int64_t in_plane = g % groups;
    const std::int64_t some = std::min({batch, last - g, groups - in_plane});
    const std::int64_t begin = in_plane * group;
    const std::int64_t count = std::min(some * group, size - begin);
    const std::byte* const x = reader.read(plane * size + begin, count);
    if (x == nullptr || !encode(GroupBatch{plane, g, begin, count}, x)) return false;
    g += some;
  }
  return true;
}

/// Decodes groups [first, last), counted over all planes.
/// @param past_caches whether to write past the caches
/// @param decode decode(plane, begin, end, past_caches, x) writes elements [begin, end) of a plane
/// to x. begin % 8 == 0
/// @pre planes are dense
template <class T, class F>
void decode_dense(const PlaneLayout& layout, std::int64_t group, T* target, std::int64_t first,
                  std::int64_t last, bool past_caches, const F& decode) {
  const std::int64_t size = layout.plane_size();
  const std::int64_t groups = (size - 1) / group + 1;
  for (std::int64_t g = first; g < last;) {
    const std::int64_t plane = g / groups;
    const std::int64_t in_plane = g % groups;
    const std::int64_t some = std::min(last - g, groups - in_plane);
    const std::int64_t begin = in_plane * group;
    decode(plane, begin, std::min(size, begin + some * group), past_caches,
           target + plane_offset(layout, plane) + begin);
    g += some;
  }
  if (past_caches) hwy::FlushStream();
}

/// Decodes planes [first, last) of `layout`, whose logical order is that of planes of `size`
/// elements. @param decode as in decode_dense; may write 8 elements before x
/// @return false when memory ran out
template <class T, class F>
bool decode_windows(const PlaneLayout& layout, std::int64_t size, T* target, std::int64_t first,
                    std::int64_t last, cpu::Workspace& work, const F& decode) {
  const std::int64_t part = layout.plane_size();
  const std::int64_t window = cpu::planes_per_window(layout, sizeof(T));
  auto* const tile = work.tile.get<T>(window * part + 8);
  if (tile == nullptr) return false;
  for (std::int64_t p = first; p < last; p += window) {
    const std::int64_t count = std::min(window, last - p);
    const std::int64_t end = (p + count) * part;
    T* x = tile + 8;
    for (std::int64_t begin = p * part; begin < end;) {
      const std::int64_t plane = begin / size;
      const std::int64_t from = begin % size;
      const std::int64_t stop = std::min(end - plane * size, size);
      decode(plane, from / 8 * 8, stop, false, x - from % 8);
      x += stop - from;
      begin = plane * size + stop;
    }
    cpu::scatter_planes(layout, sizeof(T), tile + 8, p, count, target);
  }
  return true;
}

}  // namespace cinch::codecs::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
