// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "policy/algorithms/measured_noise.h"
#include "policy/layer.h"

namespace cinch::policy {

/// What is known of a layer's place in the model.
struct HitLayer {
  LayerKind kind = LayerKind::other;
  /// The squared size of the parameters' gradients that are computed from it, as a share of all
  /// weights'; 0 where that was not seen.
  double share = 0;
  /// Of the gradient that it passes on among all that arrive where it goes.
  double share_of_sum = 1;
};

/// How much of the relative variance of the parameters' gradients an error in a layer makes: `own`
/// by what it does to its own parameter's gradient, `passed` to the gradient that it passes on,
/// which counts for all weights before it. In a residual network that reaches those before its own
/// branch thinned. Layers in the order of the forward; one result each.
std::vector<Noise> weight_hits(std::span<const HitLayer> layers);

}  // namespace cinch::policy
