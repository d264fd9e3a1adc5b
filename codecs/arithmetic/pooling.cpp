// SPDX-License-Identifier: Apache-2.0
#include "codecs/arithmetic/pooling.h"

namespace cinch::codecs {

void gather_planes(const PoolOrder& order, const float* x, const std::int64_t* index, float* y,
                   ParallelFor parallel) {
  const std::int64_t positions = order.outer * order.plane_out;
  for_range(parallel, positions, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      const float* const plane = x + at / order.plane_out * order.plane_in * order.channels;
      for (std::int64_t c = 0; c < order.channels; ++c) {
        const std::int64_t i = index[at * order.channels + c];
        const bool is_inside = i >= 0 && i < order.plane_in;
        y[at * order.channels + c] = is_inside ? plane[i * order.channels + c] : 0;
      }
    }
  });
}

}  // namespace cinch::codecs
