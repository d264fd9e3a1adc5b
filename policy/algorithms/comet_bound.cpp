// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/comet_bound.h"

#include <algorithm>
#include <cmath>

namespace cinch::policy {
namespace {

double known(double bound) noexcept {
  return std::isfinite(bound) && bound > 0 ? bound : 0;
}

}  // namespace

double comet_bound_exact(const CometLayer& layer, double fraction) noexcept {
  const double sigma = fraction * layer.momentum;
  return known(sigma * std::sqrt(3 * layer.outputs) /
               (std::sqrt(layer.nonzero) * std::sqrt(layer.output_gradient)));
}

double comet_bound_paper(const CometLayer& layer, double fraction, double a) noexcept {
  const double sigma = fraction * layer.momentum;
  return known(sigma / (a * layer.peak_gradient * std::sqrt(layer.samples * layer.nonzero)));
}

void RefreshSchedule::refreshed(std::uint64_t step, double moved) noexcept {
  constexpr std::uint64_t most_halvings = 8;
  interval_ =
      moved > 2 ? std::max({interval_ / 2, full_ / most_halvings, std::uint64_t{1}}) : full_;
  next_ = step + interval_;
}

}  // namespace cinch::policy
