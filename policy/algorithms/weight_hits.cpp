// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/weight_hits.h"

#include <algorithm>

namespace cinch::policy {
namespace {

// A gradient that is a smaller share of a sum than this is the gradient of a branch.
constexpr double most_of_branch = 0.9;

bool has_weight(LayerKind kind) noexcept {
  return kind == LayerKind::convolution || kind == LayerKind::linear;
}

// What is left, in weights' gradients, of the relative error of a gradient that is passed on.
// Errors of a transformer's rows average out in the sums over rows: measured was a fifth to a
// sixtieth (docs/gradients.md).
double left_of(LayerKind kind) noexcept {
  switch (kind) {
    case LayerKind::attention:
    case LayerKind::elementwise:
    case LayerKind::layer_norm:
    case LayerKind::matmul:
      return 1.0 / 6;
    default:
      return 1;
  }
}

}  // namespace

std::vector<Noise> weight_hits(std::span<const HitLayer> layers) {
  double weights = 0;
  double shares = 0;
  for (const HitLayer& layer : layers) {
    if (!has_weight(layer.kind)) continue;
    ++weights;
    shares += layer.share;
  }
  weights = std::max(weights, 1.0);
  std::vector<Noise> hits;
  double before = 0;
  // Weights before the current branch, and the share of the branch's gradient in the sum that they
  // get: a residual network adds the skip connection's gradient to it.
  double before_branch = 0;
  double share_of_branch = 1;
  for (const HitLayer& layer : layers) {
    const bool weight = has_weight(layer.kind);
    const double alike = weight ? 1 / weights : 0;
    const double by_size = shares > 0 ? layer.share / shares : alike;
    const double own = share_by_size * by_size + (1 - share_by_size) * alike;
    const bool is_start = layer.share_of_sum < most_of_branch;
    if (is_start || layer.kind == LayerKind::layer_norm) {
      before_branch = before;
      share_of_branch = is_start ? layer.share_of_sum : 1;
    }
    const double passed = before - before_branch + share_of_branch * before_branch;
    hits.push_back({own, left_of(layer.kind) * std::max(passed, 1 / weights)});
    if (weight) before += own;
  }
  return hits;
}

}  // namespace cinch::policy
