// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace cinch::hooks {

/// What COMET needs of a weight's momentum. The optimizer's own buffers are Python's, and another
/// name and scale with each optimizer; so this is a moving average of the gradients themselves,
/// m = 0.9 m + 0.1 g, without bias, over at most 4096 elements spread over the weight (papers.md
/// §5, trap 4).
class MovingAverage {
 public:
  /// @param gradient Of a floating-point type; starts anew where its size differs from before.
  void add(const at::Tensor& gradient);

  /// Mean of |m|; 0 before the first gradient.
  double mean_magnitude() const noexcept;

  /// How noisy a gradient is: |g - m|^2 / |g|^2 of the last one and the average before it, less
  /// what the average itself scatters; at most 1, and 0 until five were seen.
  double relative_noise() const noexcept { return noise_; }

 private:
  std::vector<float> average_;  // not yet divided by `weight_`
  std::int64_t elements_ = 0;   // of the whole weight
  double weight_ = 0;           // 1 - 0.9^n
  std::uint32_t seen_ = 0;
  double noise_ = 0;
};

}  // namespace cinch::hooks
