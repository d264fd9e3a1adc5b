// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>

#include "codecs/codec.h"
#include "codecs/host_device.h"

namespace cinch::codecs {

/// True when every extent is 1 to 2^31-1, no count or stride is negative, and the number of
/// elements fits 64 bits. Every codec requires this.
bool is_valid(const PlaneLayout& layout) noexcept;

/// True when each plane's elements are adjacent and in logical order. Planes may lie anywhere.
bool has_dense_planes(const PlaneLayout& layout) noexcept;

/// True for rows of features of which each plane has `group`: a feature of these rows is a group,
/// and the elements of a row are of one group each. Planes lie one behind the other.
bool interleaves_groups(const PlaneLayout& of, std::int64_t group) noexcept;

/// The same planes, counted by `outer` where that is 1: samples are `inner` planes of some layouts.
PlaneLayout with_outer_planes(PlaneLayout layout) noexcept;

/// Memory offset, in elements, of the first element of `plane`. @pre 0 <= plane < planes()
CINCH_HD inline std::int64_t plane_offset(const PlaneLayout& layout, std::int64_t plane) noexcept {
  return plane / layout.inner * layout.outer_stride + plane % layout.inner * layout.inner_stride;
}

/// One past the largest memory offset that the layout reaches, in elements; 0 when it has none.
std::int64_t reach(const PlaneLayout& layout) noexcept;

/// The fewest planes (1, 2, 4 or 8) whose elements fill whole bytes at 1 bit an element, hence at
/// any number of bits. Tasks that start at multiples of this number write disjoint bytes.
inline std::int64_t planes_per_byte(std::int64_t plane_size) noexcept {
  return 8 / std::gcd<std::int64_t>(8, plane_size);
}

/// Size of one element in bytes; 1 for `ElementType::other`, whose layouts count bytes.
inline std::size_t element_size_or_byte(ElementType type) noexcept {
  const std::size_t size = element_size(type);
  return size == 0 ? 1 : size;
}

/// Bytes that hold `bits` bits.
CINCH_HD inline std::int64_t bytes_for_bits(std::int64_t bits) noexcept {
  return (bits + 7) / 8;
}

}  // namespace cinch::codecs
