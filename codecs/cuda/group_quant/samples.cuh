// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/side_by_side.cuh"
#include "codecs/cuda/elements/elements.cuh"
#include "codecs/layout.h"

namespace cinch::codecs::cuda {

/// Planes that are channels-last samples, whose channels fill whole vectors.
struct SamplesLast {
  std::int64_t channels;                     ///< of a sample
  std::int64_t pixels;                       ///< of a channel
  std::int64_t pixel_stride, sample_stride;  ///< in elements
  bool vectors;  ///< whether the layout is such, and each pixel begins at a multiple of 16 bytes

  /// @param memory the elements @param element size of one
  SamplesLast(const PlaneLayout& layout, const void* memory, std::size_t element) noexcept
      : SamplesLast(with_outer_planes(layout), memory, static_cast<std::int64_t>(16 / element)) {}

 private:
  SamplesLast(const PlaneLayout& l, const void* memory, std::int64_t vector) noexcept
      : channels(l.extent[0]),
        pixels(l.extent[1] * l.extent[2]),
        pixel_stride(pixel_stride_of(channel_of(l))),
        sample_stride(l.outer_stride),
        vectors(!l.is_contiguous() && l.inner == 1 && l.stride[0] == 1 && pixel_stride > 0 &&
                pixel_stride % vector == 0 && sample_stride % vector == 0 &&
                channels % vector == 0 && is_vector_aligned(memory)) {}

  /// The layout of the pixels of one channel.
  static PlaneLayout channel_of(PlaneLayout l) noexcept {
    l.extent[0] = 1;
    return l;
  }
};

}  // namespace cinch::codecs::cuda
