// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "policy/choice.h"

namespace cinch::policy {

/// What kind of operator reads a saved activation, as the papers' formulas tell them apart; from
/// the least sensitive to errors to the most.
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

/// Whether the operand is a feature map (N, C, plane…), of which DIVISION makes planes.
bool is_feature_map(LayerKind kind) noexcept;

/// The fewest bits that group quantization may use for such an operand, whatever a solver finds
/// worthwhile (docs/adaptive-policies.md, "Least bits"): errors in attention's q and k enter an
/// exponent, and smooth functions' derivatives of approximated values are biased.
int least_bits(LayerKind kind) noexcept;

/// The same for policies that measure what their choices do: the derivatives' bias, which no
/// average over steps removes, is a fortieth of the noise at 3 bits and an eighth at 2.
int least_measured_bits(LayerKind kind) noexcept;

/// One saved activation at one place of a model's forward: what an adaptive policy decides about.
struct Layer {
  LayerKind kind = LayerKind::other;
  std::string op;
  std::string operand;
  std::size_t raw_bytes = 0;
  std::int64_t elements = 0;
  std::int64_t channels = 1;  ///< of a codec by channel
  std::int64_t planes = 1;    ///< of group_quant: ActNN's samples
  bool on_device = false;     ///< lies on a CUDA device
  /// What it may be held as, and the bytes that each takes (upper bounds where the data decide).
  std::vector<Choice> menu;
  std::vector<std::size_t> menu_bytes;
};

}  // namespace cinch::policy
