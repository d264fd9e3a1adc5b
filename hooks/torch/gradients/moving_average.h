// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace cinch::hooks {

/// A moving average of a weight's gradients, m = 0.9 m + 0.1 g, corrected for bias, over at most
/// 4096 elements spread over the weight. It replaces the momentum M in COMET's Eqs. 1 and 2: the
/// optimizer's own buffers are Python objects whose name and scale depend on the optimizer. It lies
/// on the gradients' device; the host waits for the device only to read a number.
class MovingAverage {
 public:
  /// Adds a gradient. Starts anew if its size or device differs from the last one's.
  /// @pre `gradient` is of a floating-point type
  void add(const at::Tensor& gradient);

  /// Mean of |m|; 0 before the first gradient. Waits for the device.
  double mean_magnitude() const;

 private:
  at::Tensor average_;         // in float64, not yet divided by `weight_`
  std::int64_t elements_ = 0;  // of the whole weight
  double weight_ = 0;          // 1 - 0.9^n
};

}  // namespace cinch::hooks
