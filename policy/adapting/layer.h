// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/choice.h"

namespace cinch::policy {

/// Kind of the operator that reads a saved activation, as the papers' formulas distinguish them.
/// Ordered from the least to the most sensitive to errors.
enum class LayerKind : std::uint8_t {
  linear,
  convolution,
  batch_norm,
  layer_norm,   ///< layer, group and RMS norm
  elementwise,  ///< smooth activation functions
  matmul,       ///< batched products, most often attention written out
  attention,    ///< fused attention
  other,
};

/// The kind of `op` ("aten::convolution"), in-place variants included.
LayerKind layer_kind(std::string_view op) noexcept;

/// Whether the operand is a feature map (N, C, plane…), which DIVISION splits into planes.
bool is_feature_map(LayerKind kind) noexcept;

/// The fewest bits that group quantization may use for such an operand, whatever a solver would
/// choose (docs/adaptive-policies.md, "Least bits"). Errors in attention's q and k enter an
/// exponent; derivatives of smooth functions at approximated values are biased.
int least_bits(LayerKind kind) noexcept;

/// The same for policies that measure the effect of their choices. No average over steps removes
/// the bias of smooth functions' derivatives: it is a fortieth of the noise at 3 bits and an eighth
/// at 2.
/// @param operand "result0": attention's result enters no exponent
int least_measured_bits(LayerKind kind, std::string_view operand) noexcept;

/// One saved activation at one place of a model's forward. An adaptive policy decides about each.
struct Layer {
  LayerKind kind = LayerKind::other;
  std::string op;
  std::string operand;
  std::size_t raw_bytes = 0;
  std::int64_t elements = 0;
  std::int64_t channels = 1;  ///< for codecs by channel
  std::int64_t planes = 1;    ///< for group_quant: ActNN's samples
  bool on_device = false;     ///< lies on a CUDA device
  bool derivable = false;     ///< there is a recipe for it (docs/derived.md)
  bool is_source = false;     ///< others are computed from it
  /// What the preset "default" holds it by, where a policy takes advice from that
  /// (Rule::From::advice) and it says one thing for all who read the layer.
  std::optional<codecs::CodecSpec> advice;
  /// The possible choices, and the encoded size of each (an upper bound where the data decide).
  std::vector<Choice> menu;
  std::vector<std::size_t> menu_bytes;
};

}  // namespace cinch::policy
