// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/entry.h"

namespace cinch::policy {

/// Whether `geometry` reaches each of the `elements` elements of a storage exactly once, from its
/// first: a permutation of a contiguous tensor.
bool covers(const Geometry& geometry, std::int64_t elements) noexcept;

/// The geometry of complex numbers in elements of their parts: one more dimension, of two
/// neighbours, as torch.view_as_real has it.
class Pairs {
 public:
  explicit Pairs(const Geometry& of_numbers);

  /// Valid as long as this is.
  Geometry geometry() const { return {sizes_, strides_, offset_}; }

 private:
  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> strides_;
  std::int64_t offset_;
};

/// Planes of a feature map (N, C, plane…) whose last `plane_rank` dimensions form the plane (0
/// stands for rank - 2). Logical channels, whatever the memory format.
/// @return nothing when no plane can be made: fewer dimensions than that, or more than 3 in a plane
std::optional<codecs::PlaneLayout> plane_layout(const Geometry& geometry, int plane_rank) noexcept;

/// Planes of so many rows, such as tokens, that each feature of these has one group.
/// @param geometry Its last two dimensions are rows and features, in either order. A view of some
/// of
///   the rows' features will do
/// @param elements That the storage holds
/// @param group Elements that a group should have; extent[2] is what it gets
/// @return nothing where features don't lie side by side, where groups would be far from that size,
///   or where the device's kernels would be slow
std::optional<codecs::PlaneLayout> features_apart(const Geometry& geometry, std::int64_t elements,
                                                  std::int64_t group, bool on_device) noexcept;

/// Length of `geometry`'s rows in memory: of its contiguous dimension. While a row is shorter than
/// `shortest_row`, the next outer dimension joins it if it continues the row contiguously.
/// 0 when no dimension is contiguous.
std::int64_t row_length(const Geometry& geometry) noexcept;
inline constexpr std::int64_t shortest_row = 32;

/// A row length that divides `elements`, not far from `wanted` where such a divisor exists. Rather
/// a multiple of 8 that is up to 4 times shorter: kernels take such rows several times as fast.
std::int64_t flat_row(std::int64_t elements, std::int64_t wanted) noexcept;

/// Bits an element that DIVISION needs on planes of this extent (section 4.1).
double division_bits_per_element(const codecs::CodecSpec& spec,
                                 const codecs::PlaneLayout& layout) noexcept;

}  // namespace cinch::policy
