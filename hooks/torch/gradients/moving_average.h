// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace cinch::hooks {

/// What COMET needs of a weight's momentum. The optimizer's own buffers are Python's, and another
/// name and scale with each optimizer; so this is a moving average of the gradients themselves,
/// m = 0.9 m + 0.1 g, without bias, over at most 4096 elements spread over the weight. It takes the
/// place of M in COMET's Eqs. 1 and 2. It lies where the gradients do: the host waits for a device
/// only to read a number of it.
class MovingAverage {
 public:
  /// @param gradient Of a floating-point type; starts anew where its size or device differs from
  /// before.
  void add(const at::Tensor& gradient);

  /// Mean of |m|; 0 before the first gradient. Waits for the device.
  double mean_magnitude() const;

  /// How noisy a gradient is: |g - m|^2 / |g|^2 of the last one and the average before it, less
  /// what the average itself scatters; at most 1, and 0 until five were seen. Waits for the device.
  double relative_noise() const;

 private:
  at::Tensor average_;         // in float64, not yet divided by `weight_`
  at::Tensor difference_;      // |g - m|^2 of the last gradient
  at::Tensor size_;            // |g|^2
  std::int64_t elements_ = 0;  // of the whole weight
  double weight_ = 0;          // 1 - 0.9^n
  std::uint32_t seen_ = 0;
};

}  // namespace cinch::hooks
