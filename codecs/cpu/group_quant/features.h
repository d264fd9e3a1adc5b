// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/codec.h"
#include "codecs/layout.h"

namespace cinch::codecs::cpu {

/// Features that are quantized together: a cache line of floats.
inline constexpr std::int64_t kStripFeatures = 16;
/// Features whose ranges are found together: with 256 rows, their elements stay in the L2 cache.
inline constexpr std::int64_t kRangedFeatures = 64;
/// Rows that are decoded together.
inline constexpr std::int64_t kDecodedRows = 64;

/// `features` with those that fill up the last strip.
inline std::int64_t whole_strips(std::int64_t features) noexcept {
  return (features + kStripFeatures - 1) / kStripFeatures * kStripFeatures;
}

/// Samples of `rows` rows of `features` elements, one behind the other, where each feature of a
/// sample is a group. Vectors hold neighbouring features of a row, so nothing is transposed but
/// codes.
struct FeatureRows {
  std::int64_t features;
  std::int64_t rows;

  /// @pre interleaves_groups(layout, group)
  explicit FeatureRows(const PlaneLayout& layout) noexcept
      : features(with_outer_planes(layout).extent[0]), rows(layout.extent[2]) {}

  /// Pieces of kDecodedRows rows of a sample; the last one may be shorter.
  std::int64_t pieces() const noexcept { return (rows - 1) / kDecodedRows + 1; }
};

}  // namespace cinch::codecs::cpu
