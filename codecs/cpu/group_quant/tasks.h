// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "codecs/codec.h"
#include "codecs/cpu/stretches.h"
#include "codecs/cpu/workspace.h"
#include "codecs/layout.h"

/// How the work of a codec with groups is split into tasks.
namespace cinch::codecs::cpu {

/// Elements of a task: enough that starting it costs little.
inline constexpr std::int64_t kGroupTaskElements = 1 << 14;

/// Runs f(begin, end) over ranges that cover [0, n). @return whether f always returned true
template <typename F>
bool run_tasks(ParallelFor parallel, std::int64_t n, std::int64_t grain, const F& f) {
  std::atomic<bool> good = true;
  for_range(parallel, n, grain, [&](std::int64_t begin, std::int64_t end) {
    if (!f(begin, end)) good.store(false);
    workspace().trim();
  });
  return good.load();
}

/// Elements of a plane's group task when encoding. A window of interleaved planes is gathered once,
/// not by several tasks.
inline std::int64_t group_task_elements(const Description& what) noexcept {
  if (has_dense_planes(what.layout)) return kGroupTaskElements;
  const PlaneLayout layout = finer_planes(what.layout);
  return layout.plane_size() * planes_per_window(layout, element_size(what.type));
}

/// Runs f(first, last, &holds), which encodes groups of `group` elements, counted over all planes,
/// and clears `holds` where one can't be held. Sets `representable`.
/// @return whether f always returned true
template <typename F>
bool encode_in_tasks(const Description& what, std::int64_t group, std::int64_t groups,
                     ParallelFor parallel, bool& representable, const F& f) {
  std::atomic<bool> all_hold = true;
  const bool good =
      run_tasks(parallel, groups, std::max<std::int64_t>(1, group_task_elements(what) / group),
                [&](std::int64_t first, std::int64_t last) {
                  bool holds = true;
                  const bool done = f(first, last, &holds);
                  if (!holds) all_hold.store(false);
                  return done;
                });
  representable = all_hold.load();
  return good;
}

/// Runs by_groups(first, last), over groups, where planes are dense; else by_planes(layout, first,
/// last), over planes of a layout with the same logical order.
/// @return whether they always returned true
template <typename Groups, typename Planes>
bool decode_in_tasks(const Description& what, std::int64_t group, std::int64_t groups,
                     ParallelFor parallel, const Groups& by_groups, const Planes& by_planes) {
  if (has_dense_planes(what.layout)) {
    return run_tasks(parallel, groups, std::max<std::int64_t>(1, kGroupTaskElements / group),
                     by_groups);
  }
  const PlaneLayout layout = finer_planes(what.layout);
  return run_tasks(
      parallel, layout.planes(), planes_per_window(layout, element_size(what.type)),
      [&](std::int64_t first, std::int64_t last) { return by_planes(layout, first, last); });
}

/// Whether `decode_in_pieces` takes these data.
inline bool come_in_pieces(const PlaneLayout& layout) noexcept {
  return layout.is_contiguous() && (layout.planes() == 1 || layout.plane_size() % 8 == 0);
}

/// Runs by_groups(first, last) as decode_in_tasks does, and the epilogue after each few groups.
/// @param groups of a plane @pre come_in_pieces(layout)
template <typename Groups>
bool decode_in_pieces(const PlaneLayout& layout, std::int64_t group, std::int64_t groups,
                      const Epilogue& epilogue, ParallelFor parallel, const Groups& by_groups) {
  const std::int64_t size = layout.plane_size();
  const std::int64_t piece = std::max<std::int64_t>(1, kGroupTaskElements / group);
  const auto first_element = [&](std::int64_t g) { return g / groups * size + g % groups * group; };
  return run_tasks(parallel, layout.planes() * groups, piece,
                   [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t g = first; g < last; g += piece) {
                       const std::int64_t stop = std::min(last, g + piece);
                       if (!by_groups(g, stop)) return false;
                       epilogue(first_element(g), first_element(stop));
                     }
                     return true;
                   });
}

}  // namespace cinch::codecs::cpu
