// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace cinch::hooks {

/// Calls `compare` with corresponding parts of two tensors of one dimension and one size, so that
/// what a comparison computes on its way takes a sixteenth of the memory that it would for the
/// whole.
/// @pre BelowProgram
template <typename Compare>
void for_each_part(const at::Tensor& computed, const at::Tensor& actual, const Compare& compare) {
  constexpr std::int64_t most_parts = 16;
  constexpr std::int64_t least = std::int64_t{1} << 16;  // below, launches would count
  const std::int64_t size = std::max(least, (actual.numel() + most_parts - 1) / most_parts);
  for (std::int64_t begin = 0; begin < actual.numel(); begin += size) {
    const std::int64_t count = std::min(size, actual.numel() - begin);
    compare(computed.narrow(0, begin, count), actual.narrow(0, begin, count));
  }
}

}  // namespace cinch::hooks
