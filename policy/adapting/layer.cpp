// SPDX-License-Identifier: Apache-2.0
#include "policy/adapting/layer.h"

#include <algorithm>

#include "policy/match.h"

namespace cinch::policy {

LayerKind layer_kind(std::string_view op) noexcept {
  constexpr auto contains = [](std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
  };
  op = functional_name(op);
  if (!op.starts_with("aten::")) return LayerKind::other;
  if (contains(op, "attention")) return LayerKind::attention;
  if (op == "aten::bmm" || op == "aten::baddbmm") return LayerKind::matmul;
  if (contains(op, "batch_norm")) return LayerKind::batch_norm;
  if (contains(op, "layer_norm") || contains(op, "group_norm") || contains(op, "rms_norm")) {
    return LayerKind::layer_norm;
  }
  if (contains(op, "convolution")) return LayerKind::convolution;
  if (op == "aten::addmm" || op == "aten::mm" || op == "aten::linear") return LayerKind::linear;
  constexpr std::string_view smooth[] = {"aten::celu",    "aten::elu",          "aten::gelu",
                                         "aten::glu",     "aten::hardswish",    "aten::mish",
                                         "aten::sigmoid", "aten::silu",         "aten::softplus",
                                         "aten::tanh",    "aten::_prelu_kernel"};
  return std::ranges::find(smooth, op) != std::end(smooth) ? LayerKind::elementwise
                                                           : LayerKind::other;
}

bool is_feature_map(LayerKind kind) noexcept {
  return kind == LayerKind::convolution || kind == LayerKind::batch_norm;
}

int least_bits(LayerKind kind) noexcept {
  switch (kind) {
    case LayerKind::elementwise:
      return 4;
    case LayerKind::attention:
    case LayerKind::matmul:
    case LayerKind::other:
      return 8;
    default:
      return 1;
  }
}

int least_measured_bits(LayerKind kind, std::string_view operand) noexcept {
  switch (kind) {
    case LayerKind::attention:
      return operand.starts_with("result") ? 3 : 4;
    case LayerKind::elementwise:
    case LayerKind::matmul:
      return 3;
    case LayerKind::other:
      return 4;
    default:
      return least_bits(kind);
  }
}

}  // namespace cinch::policy
