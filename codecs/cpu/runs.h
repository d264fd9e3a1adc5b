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

/// Element-wise codecs see a storage as runs: stretches of contiguous elements in logical order,
/// that start at multiples of 8 elements, whatever the memory format.
namespace cinch::codecs::cpu {

inline constexpr std::int64_t kRunElements = 1 << 14;

/// Calls `bool f(begin, count, const void* run)` for runs that cover all elements, in parallel.
/// @return false as soon as one call did, or when memory ran out
template <typename F>
bool read_runs(const Description& what, const void* source, ParallelFor parallel, const F& f) {
  const PlaneLayout& layout = what.layout;
  const std::size_t size = element_size_or_byte(what.type);
  std::atomic<bool> good = true;
  if (layout.is_contiguous()) {
    for_range(parallel, layout.elements(), kRunElements, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end && good.load(std::memory_order_relaxed);) {
        const std::int64_t count = std::min(kRunElements, end - k);
        if (!f(k, count, static_cast<const std::byte*>(source) + k * std::int64_t(size))) {
          good.store(false, std::memory_order_relaxed);
        }
        k += count;
      }
    });
    return good.load();
  }
  const std::int64_t plane_size = layout.plane_size();
  const std::int64_t tile = planes_per_tile(layout, size);
  for_range(parallel, layout.planes(), tile, [&](std::int64_t begin, std::int64_t end) {
    Workspace& work = workspace();
    auto* run = work.tile.get<std::byte>(tile * plane_size * std::int64_t(size));
    if (run == nullptr) good.store(false);
    for (std::int64_t p = begin; p < end && good.load(std::memory_order_relaxed); p += tile) {
      const std::int64_t count = std::min(tile, end - p);
      gather_planes(layout, size, source, p, count, run);
      if (!f(p * plane_size, count * plane_size, static_cast<const void*>(run))) {
        good.store(false, std::memory_order_relaxed);
      }
    }
    work.tile.trim();
  });
  return good.load();
}

/// Calls `f(begin, count, void* run)`, which fills the run, and puts the elements in their places.
/// @return false when memory ran out
template <typename F>
bool write_runs(const Description& what, void* target, ParallelFor parallel, const F& f) {
  const PlaneLayout& layout = what.layout;
  const std::size_t size = element_size_or_byte(what.type);
  if (layout.is_contiguous()) {
    for_range(parallel, layout.elements(), kRunElements, [&](std::int64_t begin, std::int64_t end) {
      f(begin, end - begin, static_cast<std::byte*>(target) + begin * std::int64_t(size));
    });
    return true;
  }
  std::atomic<bool> good = true;
  const std::int64_t plane_size = layout.plane_size();
  const std::int64_t tile = planes_per_tile(layout, size);
  for_range(parallel, layout.planes(), tile, [&](std::int64_t begin, std::int64_t end) {
    Workspace& work = workspace();
    auto* run = work.tile.get<std::byte>(tile * plane_size * std::int64_t(size));
    if (run == nullptr) good.store(false);
    for (std::int64_t p = begin; p < end && good.load(std::memory_order_relaxed); p += tile) {
      const std::int64_t count = std::min(tile, end - p);
      f(p * plane_size, count * plane_size, run);
      scatter_planes(layout, size, run, p, count, target);
    }
    work.tile.trim();
  });
  return good.load();
}

}  // namespace cinch::codecs::cpu
