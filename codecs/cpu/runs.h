// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"
#include "codecs/cpu/planes.h"
#include "codecs/cpu/workspace.h"
#include "codecs/layout.h"

/// Element-wise codecs see a storage as runs: contiguous elements in logical order that start at
/// multiples of 8 elements, whatever the memory format.
namespace cinch::codecs::cpu {

inline constexpr std::int64_t kRunElements = 1 << 14;

/// Calls `bool f(begin, count)` for stretches of [0, n) of `step` (the last perhaps shorter), in
/// parallel. @return false if a call did; stretches not begun by then are skipped
template <typename F>
bool for_each_stretch(std::int64_t n, std::int64_t step, ParallelFor parallel, const F& f) {
  std::atomic<bool> good = true;
  for_range(parallel, n, step, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end && good.load(std::memory_order_relaxed); k += step) {
      if (!f(k, std::min(step, end - k))) good.store(false, std::memory_order_relaxed);
    }
    workspace().tile.trim();
  });
  return good.load();
}

/// Calls `bool f(first, planes, void* run)` for tiles of planes, in parallel; `run` has room for
/// the tile's elements. @return false as soon as one call did, or when memory ran out
template <typename F>
bool for_each_tile(const Description& what, ParallelFor parallel, const F& f) {
  const PlaneLayout& layout = what.layout;
  const std::size_t size = element_size_or_byte(what.type);
  const std::int64_t tile = planes_per_tile(layout, size);
  const std::int64_t bytes = tile * layout.plane_size() * static_cast<std::int64_t>(size);
  return for_each_stretch(layout.planes(), tile, parallel,
                          [&](std::int64_t first, std::int64_t planes) {
                            void* const run = workspace().tile.get<std::byte>(bytes);
                            return run != nullptr && f(first, planes, run);
                          });
}

/// Calls `bool f(begin, count, const void* run)` for runs that cover all elements, in parallel.
/// @return false as soon as one call did, or when memory ran out
template <typename F>
bool read_runs(const Description& what, const void* source, ParallelFor parallel, const F& f) {
  const PlaneLayout& layout = what.layout;
  const std::size_t size = element_size_or_byte(what.type);
  if (layout.is_contiguous()) {
    const auto* const bytes = static_cast<const std::byte*>(source);
    return for_each_stretch(layout.elements(), kRunElements, parallel,
                            [&](std::int64_t begin, std::int64_t count) {
                              return f(begin, count, bytes + begin * std::int64_t(size));
                            });
  }
  const std::int64_t n = layout.plane_size();
  return for_each_tile(what, parallel, [&](std::int64_t first, std::int64_t planes, void* run) {
    gather_planes(layout, size, source, first, planes, run);
    return f(first * n, planes * n, static_cast<const void*>(run));
  });
}

/// Calls `f(begin, count, void* run)`, which fills the run, and copies the elements to `target`.
/// @return false when memory ran out
template <typename F>
bool write_runs(const Description& what, void* target, ParallelFor parallel, const F& f) {
  const PlaneLayout& layout = what.layout;
  const std::size_t size = element_size_or_byte(what.type);
  if (layout.is_contiguous()) {
    auto* const bytes = static_cast<std::byte*>(target);
    return for_each_stretch(layout.elements(), kRunElements, parallel,
                            [&](std::int64_t begin, std::int64_t count) {
                              f(begin, count, bytes + begin * std::int64_t(size));
                              return true;
                            });
  }
  const std::int64_t n = layout.plane_size();
  return for_each_tile(what, parallel, [&](std::int64_t first, std::int64_t planes, void* run) {
    f(first * n, planes * n, run);
    scatter_planes(layout, size, run, first, planes, target);
    return true;
  });
}

/// Calls `f(begin, count, void* run)`, which changes the elements of `target` in the run.
/// @return false when memory ran out
template <typename F>
bool change_runs(const Description& what, void* target, ParallelFor parallel, const F& f) {
  const PlaneLayout& layout = what.layout;
  const std::size_t size = element_size_or_byte(what.type);
  return write_runs(what, target, parallel, [&](std::int64_t begin, std::int64_t count, void* run) {
    if (!layout.is_contiguous()) {
      const std::int64_t n = layout.plane_size();
      gather_planes(layout, size, target, begin / n, count / n, run);
    }
    f(begin, count, run);
  });
}

}  // namespace cinch::codecs::cpu
