// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/gradients/moving_average.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

namespace cinch::hooks {
namespace {

constexpr std::int64_t most_elements = 4096;
constexpr double decay = 0.9;
constexpr std::uint32_t enough = 5;

}  // namespace

void MovingAverage::add(const at::Tensor& gradient) {
  const std::int64_t elements = gradient.numel();
  if (elements == 0) return;
  const bool fits = elements == elements_ && average_.device() == gradient.device();
  if (!fits) *this = {};
  elements_ = elements;
  const std::int64_t step = (elements + most_elements - 1) / most_elements;
  const at::Tensor g = gradient.contiguous().view({-1}).slice(0, 0, elements, step).to(at::kDouble);
  if (!fits) average_ = at::zeros_like(g);
  const at::Tensor mean = weight_ > 0 ? average_ / weight_ : average_;
  difference_ = (g - mean).square().sum();
  size_ = g.square().sum();
  average_ = average_ * decay + g * (1 - decay);
  ++seen_;
  weight_ = decay * weight_ + (1 - decay);
}

double MovingAverage::mean_magnitude() const {
  return seen_ == 0 ? 0 : average_.abs().mean().item().toDouble() / weight_;
}

double MovingAverage::relative_noise() const {
  if (seen_ <= enough) return 0;
  const double size = size_.item().toDouble();
  if (!(size > 0)) return 0;
  // The average is noisy too: its variance is `share` times a gradient's.
  const double old = std::pow(decay, seen_ - 1);
  const double share = (1 - decay) / (1 + decay) * (1 - old * old) / ((1 - old) * (1 - old));
  return std::min(difference_.item().toDouble() / (1 + share) / size, 1.0);
}

}  // namespace cinch::hooks
