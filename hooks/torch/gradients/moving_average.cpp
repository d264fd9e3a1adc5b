// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/gradients/moving_average.h"

#include <ATen/ATen.h>

namespace cinch::hooks {
namespace {

constexpr std::int64_t most_elements = 4096;
constexpr double decay = 0.9;

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
  average_ = average_ * decay + g * (1 - decay);
  weight_ = decay * weight_ + (1 - decay);
}

double MovingAverage::mean_magnitude() const {
  return weight_ == 0 ? 0 : average_.abs().mean().item().toDouble() / weight_;
}

}  // namespace cinch::hooks
