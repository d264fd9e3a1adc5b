// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"

/// Copies strided planes to and from contiguous memory.
namespace cinch::codecs::cpu {

/// Copies the elements of planes [first, first + count) from `memory`, as `layout` places them, to
/// `logical`, in logical order, planes `pitch` elements apart. @pre element_size is 1, 2, 4 or 8
void gather_planes(const PlaneLayout& layout, std::size_t element_size, const void* memory,
                   std::int64_t first, std::int64_t count, void* logical,
                   std::int64_t pitch) noexcept;

/// The same with adjacent planes.
inline void gather_planes(const PlaneLayout& layout, std::size_t element_size, const void* memory,
                          std::int64_t first, std::int64_t count, void* logical) noexcept {
  gather_planes(layout, element_size, memory, first, count, logical, layout.plane_size());
}

/// The smallest pitch at which planes that are written together don't map to the same sets of the
/// L1 cache.
std::int64_t gathered_pitch(const PlaneLayout& layout, std::size_t element_size) noexcept;

/// The reverse, from adjacent planes. Memory that the layout doesn't reach is left alone.
void scatter_planes(const PlaneLayout& layout, std::size_t element_size, const void* logical,
                    std::int64_t first, std::int64_t count, void* memory) noexcept;

/// Copies the elements at logical indices [begin, begin + count) to `logical`.
/// @pre element_size is 1, 2, 4 or 8
void gather_elements(const PlaneLayout& layout, std::size_t element_size, const void* memory,
                     std::int64_t begin, std::int64_t count, void* logical) noexcept;

/// The reverse of gather_elements. Memory that the layout doesn't reach is left alone.
void scatter_elements(const PlaneLayout& layout, std::size_t element_size, const void* logical,
                      std::int64_t begin, std::int64_t count, void* memory) noexcept;

/// to[c * to_stride + r] = from[r * from_stride + c] for all r < rows, c < columns. `by_rows`:
/// `from` is main memory and traversed in order; else `to` is. @pre element_size is 1, 2, 4 or 8
void transpose_elements(std::size_t element_size, const void* from, std::int64_t from_stride,
                        std::int64_t rows, std::int64_t columns, void* to, std::int64_t to_stride,
                        bool by_rows) noexcept;

/// How many planes to gather at once: enough of interleaved planes to use whole cache lines, and a
/// multiple of planes_per_byte.
std::int64_t planes_per_tile(const PlaneLayout& layout, std::size_t element_size) noexcept;

}  // namespace cinch::codecs::cpu
