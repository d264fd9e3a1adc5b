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
  if (elements != elements_) *this = {};
  elements_ = elements;
  const std::int64_t step = (elements + most_elements - 1) / most_elements;
  const at::Tensor sample = gradient.contiguous()
                                .view({-1})
                                .slice(0, 0, elements, step)
                                .to(at::kCPU, at::kFloat)
                                .contiguous();
  const float* g = sample.const_data_ptr<float>();
  average_.resize(static_cast<std::size_t>(sample.numel()), 0.0F);
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < average_.size(); ++i) {
    const double mean = weight_ > 0 ? double{average_[i]} / weight_ : 0;
    difference += (double{g[i]} - mean) * (double{g[i]} - mean);
    size += double{g[i]} * double{g[i]};
    average_[i] = static_cast<float>(decay * double{average_[i]} + (1 - decay) * double{g[i]});
  }
  if (seen_ >= enough && size > 0) {
    // The average scatters too: its variance is this share of a gradient's.
    const double old = std::pow(decay, seen_);
    const double share = (1 - decay) / (1 + decay) * (1 - old * old) / ((1 - old) * (1 - old));
    noise_ = std::min(difference / (1 + share) / size, 1.0);
  }
  ++seen_;
  weight_ = decay * weight_ + (1 - decay);
}

double MovingAverage::mean_magnitude() const noexcept {
  if (average_.empty()) return 0;
  double sum = 0;
  for (const float m : average_) sum += std::abs(double{m});
  return sum / static_cast<double>(average_.size()) / weight_;
}

}  // namespace cinch::hooks
