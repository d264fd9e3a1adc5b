// SPDX-License-Identifier: Apache-2.0
#include "codecs/cpu/planes.h"

#include <algorithm>
#include <cstring>

#include "codecs/layout.h"
#include "codecs/with_pattern.h"

namespace cinch::codecs {
namespace {

enum class Way { gather, scatter };

/// Copies `count` elements that are `stride` apart in memory, and side by side in logical order.
template <Way way, typename T>
void copy_strided(T* memory, std::int64_t stride, std::int64_t count, T* logical) noexcept {
  if (stride == 1) {
    std::memcpy(way == Way::gather ? logical : memory, way == Way::gather ? memory : logical,
                count * sizeof(T));
    return;
  }
  for (std::int64_t w = 0; w < count; ++w) {
    if constexpr (way == Way::gather) {
      logical[w] = memory[w * stride];
    } else {
      memory[w * stride] = logical[w];
    }
  }
}

/// Copies one row of `width` elements of each of `count` planes, `pitch` apart in `logical`.
template <Way way, typename T>
void copy_rows(const PlaneLayout& layout, T* memory, std::int64_t width, std::int64_t count,
               T* logical, std::int64_t pitch) noexcept {
  if (count > 1 && layout.inner_stride == 1) {
    if constexpr (way == Way::gather) {
      cpu::transpose_elements(sizeof(T), memory, layout.stride[2], width, count, logical, pitch,
                              true);
    } else {
      cpu::transpose_elements(sizeof(T), logical, pitch, count, width, memory, layout.stride[2],
                              false);
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    copy_strided<way>(memory + i * layout.inner_stride, layout.stride[2], width,
                      logical + i * pitch);
  }
}

/// Copies planes [0, count) of one outer index; `memory` and `logical` are their first elements.
template <Way way, typename T>
void copy_run(const PlaneLayout& layout, T* memory, std::int64_t count, T* logical,
              std::int64_t pitch) noexcept {
  const auto& [depth, height, width] = layout.extent;
  const bool one_row = layout.stride[1] == width * layout.stride[2];
  for (std::int64_t d = 0; d < depth; ++d) {
    T* const slice = memory + d * layout.stride[0];
    T* const to = logical + d * height * width;
    if (one_row) {
      copy_rows<way>(layout, slice, height * width, count, to, pitch);
      continue;
    }
    for (std::int64_t h = 0; h < height; ++h) {
      copy_rows<way>(layout, slice + h * layout.stride[1], width, count, to + h * width, pitch);
    }
  }
}

template <Way way, typename T>
void copy_planes(const PlaneLayout& layout, T* memory, std::int64_t first, std::int64_t count,
                 T* logical, std::int64_t pitch) noexcept {
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t run = std::min(count - done, layout.inner - (first + done) % layout.inner);
    copy_run<way>(layout, memory + plane_offset(layout, first + done), run, logical + done * pitch,
                  pitch);
    done += run;
  }
}

/// Copies elements [begin, begin + count) of the plane that begins at `memory`.
template <Way way, typename T>
void copy_part(const PlaneLayout& layout, T* memory, std::int64_t begin, std::int64_t count,
               T* logical) noexcept {
  const std::int64_t width = layout.extent[2];
  while (count > 0) {
    const std::int64_t row = begin / width;
    const std::int64_t some = std::min(count, width - begin % width);
    T* const m = memory + row / layout.extent[1] * layout.stride[0] +
                 row % layout.extent[1] * layout.stride[1] + begin % width * layout.stride[2];
    copy_strided<way>(m, layout.stride[2], some, logical);
    logical += some;
    begin += some;
    count -= some;
  }
}

template <Way way, typename T>
void copy_elements(const PlaneLayout& layout, T* memory, std::int64_t begin, std::int64_t count,
                   T* logical) noexcept {
  const std::int64_t plane_size = layout.plane_size();
  while (count > 0) {
    const std::int64_t plane = begin / plane_size;
    std::int64_t some = std::min(count, plane_size - begin % plane_size);
    if (some == plane_size) {
      const std::int64_t planes = count / plane_size;
      copy_planes<way>(layout, memory, plane, planes, logical, plane_size);
      some = planes * plane_size;
    } else {
      copy_part<way>(layout, memory + plane_offset(layout, plane), begin % plane_size, some,
                     logical);
    }
    logical += some;
    begin += some;
    count -= some;
  }
}

template <Way way>
void copy_any(const PlaneLayout& layout, std::size_t element_size, void* memory, std::int64_t first,
              std::int64_t count, void* logical, std::int64_t pitch) noexcept {
  with_pattern(element_size, [&]<typename T>(T*) {
    copy_planes<way>(layout, static_cast<T*>(memory), first, count, static_cast<T*>(logical),
                     pitch);
  });
}

template <Way way>
void copy_any_elements(const PlaneLayout& layout, std::size_t element_size, void* memory,
                       std::int64_t begin, std::int64_t count, void* logical) noexcept {
  with_pattern(element_size, [&]<typename T>(T*) {
    copy_elements<way>(layout, static_cast<T*>(memory), begin, count, static_cast<T*>(logical));
  });
}

}  // namespace

void cpu::gather_planes(const PlaneLayout& layout, std::size_t element_size, const void* memory,
                        std::int64_t first, std::int64_t count, void* logical,
                        std::int64_t pitch) noexcept {
  copy_any<Way::gather>(layout, element_size, const_cast<void*>(memory), first, count, logical,
                        pitch);
}

void cpu::scatter_planes(const PlaneLayout& layout, std::size_t element_size, const void* logical,
                         std::int64_t first, std::int64_t count, void* memory) noexcept {
  copy_any<Way::scatter>(layout, element_size, memory, first, count, const_cast<void*>(logical),
                         layout.plane_size());
}

void cpu::gather_elements(const PlaneLayout& layout, std::size_t element_size, const void* memory,
                          std::int64_t begin, std::int64_t count, void* logical) noexcept {
  copy_any_elements<Way::gather>(layout, element_size, const_cast<void*>(memory), begin, count,
                                 logical);
}

void cpu::scatter_elements(const PlaneLayout& layout, std::size_t element_size, const void* logical,
                           std::int64_t begin, std::int64_t count, void* memory) noexcept {
  copy_any_elements<Way::scatter>(layout, element_size, memory, begin, count,
                                  const_cast<void*>(logical));
}

std::int64_t cpu::gathered_pitch(const PlaneLayout& layout, std::size_t element_size) noexcept {
  constexpr std::size_t kWay = 4096, kCacheLine = 64;
  const std::int64_t n = layout.plane_size();
  const bool same_place = static_cast<std::size_t>(n) * element_size % kWay == 0;
  return n + (same_place ? static_cast<std::int64_t>(kCacheLine / element_size) : 0);
}

std::int64_t cpu::planes_per_tile(const PlaneLayout& layout, std::size_t element_size) noexcept {
  const std::int64_t n = layout.plane_size();
  const bool interleaved = layout.inner > 1 && layout.inner_stride < layout.stride[2];
  if (interleaved) {
    // Whole cache lines of memory, and as many of them as stay in the L2 cache.
    const auto line = std::max<std::int64_t>(8, 64 / static_cast<std::int64_t>(element_size));
    constexpr std::int64_t kTileBytes = std::int64_t{1} << 20;
    const std::int64_t line_bytes = line * n * static_cast<std::int64_t>(element_size);
    return std::max<std::int64_t>(1, kTileBytes / line_bytes) * line;
  }
  // Several small planes, so that the cost of a call for each doesn't dominate.
  constexpr std::int64_t kTileElements = 8192;
  const std::int64_t unit = planes_per_byte(n);
  return std::max<std::int64_t>(1, kTileElements / (unit * n)) * unit;
}

}  // namespace cinch::codecs
