// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/codec.h"

/// Recomputes max-pooling's output from its input and its indices.
namespace cinch::codecs {

/// Memory order of the planes of input and output: contiguous (`channels` is 1, `outer` the number
/// of planes) or channels last.
struct PoolOrder {
  std::int64_t outer = 0;
  std::int64_t channels = 1;
  std::int64_t plane_in = 0;  ///< elements of one channel of an input plane
  std::int64_t plane_out = 0;
};

/// y[o, k, c] = x[o, index[o, k, c], c] for each plane o, position k and channel c. An index
/// outside its plane gives 0.
void gather_planes(const PoolOrder& order, const float* x, const std::int64_t* index, float* y,
                   ParallelFor parallel);

}  // namespace cinch::codecs
