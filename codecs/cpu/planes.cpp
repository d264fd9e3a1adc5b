// SPDX-License-Identifier: Apache-2.0
#include "codecs/cpu/planes.h"

#include <algorithm>
#include <cstring>

#include "codecs/layout.h"

namespace cinch::codecs::cpu {
namespace {

enum class Way { gather, scatter };

/// One row of `width` elements of each of `count` planes, `plane_size` apart in `logical`.
template <Way way, typename T>
void copy_rows(const PlaneLayout& layout, T* memory, std::int64_t width, std::int64_t count,
               T* logical, std::int64_t plane_size) noexcept {
  // Elements of a stretch share cache lines on the side that is read, and lie together on the
  // side that is written.
  constexpr std::int64_t kStretch = 16;
  for (std::int64_t begin = 0; begin < width; begin += kStretch) {
    const std::int64_t end = std::min(width, begin + kStretch);
    if constexpr (way == Way::gather) {
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t w = begin; w < end; ++w) {
          logical[i * plane_size + w] = memory[w * layout.stride[2] + i * layout.inner_stride];
        }
      }
    } else {
      for (std::int64_t w = begin; w < end; ++w) {
        for (std::int64_t i = 0; i < count; ++i) {
          memory[w * layout.stride[2] + i * layout.inner_stride] = logical[i * plane_size + w];
        }
      }
    }
  }
}

/// Planes [0, count) of one outer index, of which `memory` and `logical` are the first elements.
template <Way way, typename T>
void copy_run(const PlaneLayout& layout, T* memory, std::int64_t count, T* logical) noexcept {
  const std::int64_t plane_size = layout.plane_size();
  const auto& [depth, height, width] = layout.extent;
  const bool one_row = layout.stride[1] == width * layout.stride[2];
  for (std::int64_t d = 0; d < depth; ++d) {
    T* const slice = memory + d * layout.stride[0];
    T* const to = logical + d * height * width;
    if (one_row) {
      copy_rows<way>(layout, slice, height * width, count, to, plane_size);
      continue;
    }
    for (std::int64_t h = 0; h < height; ++h) {
      copy_rows<way>(layout, slice + h * layout.stride[1], width, count, to + h * width,
                     plane_size);
    }
  }
}

template <Way way, typename T>
void copy_planes(const PlaneLayout& layout, T* memory, std::int64_t first, std::int64_t count,
                 T* logical) noexcept {
  const std::int64_t plane_size = layout.plane_size();
  const bool dense = has_dense_planes(layout);
  for (std::int64_t done = 0; done < count;) {
    T* m = memory + plane_offset(layout, first + done);
    T* l = logical + done * plane_size;
    if (dense) {
      std::memcpy(way == Way::gather ? l : m, way == Way::gather ? m : l, plane_size * sizeof(T));
      ++done;
      continue;
    }
    const std::int64_t run = std::min(count - done, layout.inner - (first + done) % layout.inner);
    copy_run<way>(layout, m, run, l);
    done += run;
  }
}

/// Elements [begin, begin + count) of the plane whose first element `memory` is.
template <Way way, typename T>
void copy_part(const PlaneLayout& layout, T* memory, std::int64_t begin, std::int64_t count,
               T* logical) noexcept {
  const std::int64_t width = layout.extent[2];
  while (count > 0) {
    const std::int64_t row = begin / width;
    const std::int64_t some = std::min(count, width - begin % width);
    T* const m = memory + row / layout.extent[1] * layout.stride[0] +
                 row % layout.extent[1] * layout.stride[1] + begin % width * layout.stride[2];
    for (std::int64_t w = 0; w < some; ++w) {
      if constexpr (way == Way::gather) {
        logical[w] = m[w * layout.stride[2]];
      } else {
        m[w * layout.stride[2]] = logical[w];
      }
    }
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
      copy_planes<way>(layout, memory, plane, planes, logical);
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

/// Calls f with a null pointer to a type of `element_size` bytes.
template <class F>
void with_element(std::size_t element_size, const F& f) {
  switch (element_size) {
    case 1:
      return f(static_cast<std::uint8_t*>(nullptr));
    case 2:
      return f(static_cast<std::uint16_t*>(nullptr));
    case 4:
      return f(static_cast<std::uint32_t*>(nullptr));
    default:
      return f(static_cast<std::uint64_t*>(nullptr));
  }
}

template <Way way>
void copy_any_planes(const PlaneLayout& layout, std::size_t element_size, void* memory,
                     std::int64_t first, std::int64_t count, void* logical) noexcept {
  with_element(element_size, [&]<typename T>(T*) {
    copy_planes<way>(layout, static_cast<T*>(memory), first, count, static_cast<T*>(logical));
  });
}

template <Way way>
void copy_any_elements(const PlaneLayout& layout, std::size_t element_size, void* memory,
                       std::int64_t begin, std::int64_t count, void* logical) noexcept {
  with_element(element_size, [&]<typename T>(T*) {
    copy_elements<way>(layout, static_cast<T*>(memory), begin, count, static_cast<T*>(logical));
  });
}

}  // namespace

void gather_planes(const PlaneLayout& layout, std::size_t element_size, const void* memory,
                   std::int64_t first, std::int64_t count, void* logical) noexcept {
  copy_any_planes<Way::gather>(layout, element_size, const_cast<void*>(memory), first, count,
                               logical);
}

void scatter_planes(const PlaneLayout& layout, std::size_t element_size, const void* logical,
                    std::int64_t first, std::int64_t count, void* memory) noexcept {
  copy_any_planes<Way::scatter>(layout, element_size, memory, first, count,
                                const_cast<void*>(logical));
}

void gather_elements(const PlaneLayout& layout, std::size_t element_size, const void* memory,
                     std::int64_t begin, std::int64_t count, void* logical) noexcept {
  copy_any_elements<Way::gather>(layout, element_size, const_cast<void*>(memory), begin, count,
                                 logical);
}

void scatter_elements(const PlaneLayout& layout, std::size_t element_size, const void* logical,
                      std::int64_t begin, std::int64_t count, void* memory) noexcept {
  copy_any_elements<Way::scatter>(layout, element_size, memory, begin, count,
                                  const_cast<void*>(logical));
}

std::int64_t planes_per_tile(const PlaneLayout& layout, std::size_t element_size) noexcept {
  constexpr std::int64_t kCacheLine = 64;
  const std::int64_t unit = planes_per_byte(layout.plane_size());
  const bool interleaved = layout.inner > 1 && layout.inner_stride < layout.stride[2];
  if (interleaved) return std::max<std::int64_t>(8, kCacheLine / std::int64_t(element_size));
  // Small planes together, so that a call for each doesn't dominate.
  constexpr std::int64_t kTileElements = 8192;
  return std::max<std::int64_t>(1, kTileElements / (unit * layout.plane_size())) * unit;
}

}  // namespace cinch::codecs::cpu
