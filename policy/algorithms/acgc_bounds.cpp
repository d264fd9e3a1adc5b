// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/acgc_bounds.h"

#include <algorithm>

namespace cinch::policy {

double acgc_product_bound(std::span<const AcgcTerm> terms, double elements, double e2) noexcept {
  double variance = 0;
  double spread = 0;
  for (const AcgcTerm& term : terms) {
    variance += term.weight_gradient;
    spread += term.kernel / term.stride * term.output_gradient;
  }
  return spread > 0 && elements > 0 ? e2 * variance / (2 * elements * spread) : 0;
}

double acgc_expected_bound(std::span<const AcgcTerm> terms, double channels, double e2) noexcept {
  double variance = 0;
  double spread = 0;
  for (const AcgcTerm& term : terms) {
    variance += term.weight_gradient;
    spread += term.kernel * term.output_gradient;
  }
  return spread > 0 && channels > 0 ? 4 * e2 * variance / (channels * spread) : 0;
}

double batch_norm_input_gradient(const AcgcChannel& c, double gradient_sum, double count) noexcept {
  const double scale = c.gamma * c.gamma / (c.sigma * c.sigma);
  const double explained =
      (gradient_sum * gradient_sum + c.gamma_gradient * c.gamma_gradient) / count;
  return scale * std::max(c.output_gradient - explained, 0.0);
}

double acgc_batch_norm_bound(const AcgcChannel& c, double input_gradient, double count,
                             double channels, double e2) noexcept {
  const double variance = c.sigma * c.sigma;
  const double g2 = c.gamma_gradient * c.gamma_gradient + 2 * c.output_gradient;
  const double divisor = channels * c.gamma * c.gamma * g2;
  // A channel without gradient tolerates any error; the bound is one standard deviation.
  if (!(divisor > 0)) return variance;
  return std::min(variance, e2 * input_gradient * count * variance * variance / divisor);
}

double acgc_layer_norm_bound(const AcgcRows& rows, double e2) noexcept {
  if (!(rows.sensitivity > 0)) return rows.least_variance;
  return std::min(rows.least_variance, e2 * rows.input_gradient * rows.features / rows.sensitivity);
}

}  // namespace cinch::policy
