// SPDX-License-Identifier: Apache-2.0
#include "codecs/cpu/planes.h"

#include <algorithm>
#include <cstring>

#include "codecs/layout.h"

namespace cinch::codecs::cpu {
namespace {

enum class Way { gather, scatter };

/// As many elements of T as the vectors have that every processor has.
template <typename T>
inline constexpr std::int64_t kSquare = 16 / static_cast<std::int64_t>(sizeof(T));

/// Writes the columns of a square of kSquare rows as rows.
inline void transpose(const std::uint32_t* from, std::int64_t from_stride, std::uint32_t* to,
                      std::int64_t to_stride) noexcept {
  using Vector [[gnu::vector_size(16)]] = std::uint32_t;
  Vector r[4];
  for (int i = 0; i < 4; ++i) std::memcpy(&r[i], from + i * from_stride, 16);
  const Vector low02 = __builtin_shufflevector(r[0], r[2], 0, 4, 1, 5);
  const Vector high02 = __builtin_shufflevector(r[0], r[2], 2, 6, 3, 7);
  const Vector low13 = __builtin_shufflevector(r[1], r[3], 0, 4, 1, 5);
  const Vector high13 = __builtin_shufflevector(r[1], r[3], 2, 6, 3, 7);
  r[0] = __builtin_shufflevector(low02, low13, 0, 4, 1, 5);
  r[1] = __builtin_shufflevector(low02, low13, 2, 6, 3, 7);
  r[2] = __builtin_shufflevector(high02, high13, 0, 4, 1, 5);
  r[3] = __builtin_shufflevector(high02, high13, 2, 6, 3, 7);
  for (int i = 0; i < 4; ++i) std::memcpy(to + i * to_stride, &r[i], 16);
}

inline void transpose(const std::uint16_t* from, std::int64_t from_stride, std::uint16_t* to,
                      std::int64_t to_stride) noexcept {
  using Vector [[gnu::vector_size(16)]] = std::uint16_t;
  Vector r[8], next[8];
  for (int i = 0; i < 8; ++i) std::memcpy(&r[i], from + i * from_stride, 16);
  // Each time, rows i and i + 4 are interleaved to rows 2i and 2i + 1.
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 4; ++i) {
      next[2 * i] = __builtin_shufflevector(r[i], r[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      next[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    std::memcpy(r, next, sizeof r);
  }
  for (int i = 0; i < 8; ++i) std::memcpy(to + i * to_stride, &r[i], 16);
}

/// As copy_rows below for planes whose elements lie side by side, a square at a time.
/// @return how many columns and planes that was good for; the others are left
struct Copied {
  std::int64_t width = 0;
  std::int64_t count = 0;
};
template <Way way, typename T>
Copied copy_squares(T* memory, std::int64_t stride, std::int64_t width, std::int64_t count,
                    T* logical, std::int64_t plane_size) noexcept {
  constexpr std::int64_t kSide = kSquare<T>;
  // Whole cache lines on both sides.
  constexpr std::int64_t kStretch = 64 / static_cast<std::int64_t>(sizeof(T));
  constexpr std::int64_t kAhead = 3 * kStretch;
  const Copied copied = {width / kSide * kSide, count / kSide * kSide};
  for (std::int64_t begin = 0; begin < copied.width; begin += kStretch) {
    const std::int64_t end = std::min(copied.width, begin + kStretch);
    if constexpr (way == Way::gather) {
      for (std::int64_t w = begin; w < end; ++w) __builtin_prefetch(memory + (w + kAhead) * stride);
    }
    for (std::int64_t i = 0; i < copied.count; i += kSide) {
      for (std::int64_t w = begin; w < end; w += kSide) {
        T* const m = memory + w * stride + i;
        T* const l = logical + i * plane_size + w;
        if constexpr (way == Way::gather) {
          transpose(m, stride, l, plane_size);
        } else {
          transpose(l, plane_size, m, stride);
        }
      }
    }
  }
  return copied;
}

/// One row of `width` elements of each of `count` planes, `plane_size` apart in `logical`.
template <Way way, typename T>
void copy_rows(const PlaneLayout& layout, T* memory, std::int64_t width, std::int64_t count,
               T* logical, std::int64_t plane_size) noexcept {
  const std::int64_t stride = layout.stride[2];
  const auto copy = [&](std::int64_t i, std::int64_t w) {
    T& m = memory[w * stride + i * layout.inner_stride];
    T& l = logical[i * plane_size + w];
    if constexpr (way == Way::gather) {
      l = m;
    } else {
      m = l;
    }
  };
  Copied done;
  if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
    if (layout.inner_stride == 1) {
      done = copy_squares<way>(memory, stride, width, count, logical, plane_size);
    }
  }
  for (std::int64_t i = 0; i < done.count; ++i) {
    for (std::int64_t w = done.width; w < width; ++w) copy(i, w);
  }
  // Elements of a stretch share cache lines on the side that is read, and lie together on the
  // side that is written.
  constexpr std::int64_t kStretch = 16;
  for (std::int64_t begin = 0; begin < width; begin += kStretch) {
    const std::int64_t end = std::min(width, begin + kStretch);
    if constexpr (way == Way::gather) {
      for (std::int64_t i = done.count; i < count; ++i) {
        for (std::int64_t w = begin; w < end; ++w) copy(i, w);
      }
    } else {
      for (std::int64_t w = begin; w < end; ++w) {
        for (std::int64_t i = done.count; i < count; ++i) copy(i, w);
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

template <Way way>
void copy_any(const PlaneLayout& layout, std::size_t element_size, void* memory, std::int64_t first,
              std::int64_t count, void* logical) noexcept {
  const auto copy = [&]<typename T>(T*) {
    copy_planes<way>(layout, static_cast<T*>(memory), first, count, static_cast<T*>(logical));
  };
  switch (element_size) {
    case 1:
      return copy(static_cast<std::uint8_t*>(nullptr));
    case 2:
      return copy(static_cast<std::uint16_t*>(nullptr));
    case 4:
      return copy(static_cast<std::uint32_t*>(nullptr));
    default:
      return copy(static_cast<std::uint64_t*>(nullptr));
  }
}

}  // namespace

void gather_planes(const PlaneLayout& layout, std::size_t element_size, const void* memory,
                   std::int64_t first, std::int64_t count, void* logical) noexcept {
  copy_any<Way::gather>(layout, element_size, const_cast<void*>(memory), first, count, logical);
}

void scatter_planes(const PlaneLayout& layout, std::size_t element_size, const void* logical,
                    std::int64_t first, std::int64_t count, void* memory) noexcept {
  copy_any<Way::scatter>(layout, element_size, memory, first, count, const_cast<void*>(logical));
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
