// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "policy/adapting/layer.h"
#include "policy/algorithms/measured_noise.h"

namespace cinch::policy {

/// Measurements of a layer's place in the model.
struct HitLayer {
  LayerKind kind = LayerKind::other;
  /// Squared size of the parameters' gradients that are computed from the layer, as a share of all
  /// weights'; 0 if not measured.
  double share = 0;
  /// See Look::share_of_sum; 1 if not measured.
  double share_of_sum = 1;
};

/// How much each layer's errors count in the relative variance of all parameters' gradients: `own`
/// for the error of its own parameter's gradient, `passed` for that of the gradient that it passes
/// on, which reaches all weights before it. In a residual network the weights before the layer's
/// branch get only a share; of the errors of a transformer's rows a sixth is left.
/// @param layers In the order of the forward @return one each
std::vector<Noise> weight_hits(std::span<const HitLayer> layers);

}  // namespace cinch::policy
