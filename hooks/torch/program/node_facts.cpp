// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/program/node_facts.h"

#include <torch/csrc/autograd/generated/Functions.h>

namespace cinch::hooks {

namespace generated = torch::autograd::generated;
using policy::LayerKind;

std::optional<NodeFacts> node_facts(const torch::autograd::Node& node) {
  NodeFacts facts;
  if (const auto* conv = dynamic_cast<const generated::ConvolutionBackward0*>(&node)) {
    if (conv->transposed) return std::nullopt;  // the formulas are those of plain convolutions
    facts.kind = LayerKind::convolution;
    facts.input = &conv->input_;
    facts.weight = &conv->weight_;
    facts.weight_edge = 1;
    for (const c10::SymInt& stride : conv->stride) {
      const auto known = stride.maybe_as_int();
      if (!known) return std::nullopt;
      facts.stride *= static_cast<double>(*known);
    }
    const auto groups = conv->groups.maybe_as_int();
    if (!groups) return std::nullopt;
    facts.groups = static_cast<double>(*groups);
    return facts;
  }
  if (const auto* linear = dynamic_cast<const generated::AddmmBackward0*>(&node)) {
    facts.kind = LayerKind::linear;
    facts.input = &linear->mat1_;
    facts.weight_edge = 2;
    return facts;
  }
  if (const auto* product = dynamic_cast<const generated::MmBackward0*>(&node)) {
    facts.kind = LayerKind::linear;
    facts.input = &product->self_;
    facts.weight_edge = 1;
    return facts;
  }
  if (const auto* norm = dynamic_cast<const generated::NativeBatchNormBackward0*>(&node)) {
    facts.kind = LayerKind::batch_norm;
    facts.input = &norm->input_;
    facts.weight = &norm->weight_;
    facts.inverse_sigma = &norm->result2_;
    facts.weight_edge = 1;
    facts.training = norm->training;
    return facts;
  }
  if (const auto* norm = dynamic_cast<const generated::NativeLayerNormBackward0*>(&node)) {
    facts.kind = LayerKind::layer_norm;
    facts.input = &norm->input_;
    facts.weight = &norm->weight_;
    facts.mean = &norm->result1_;
    facts.inverse_sigma = &norm->result2_;
    facts.weight_edge = 1;
    return facts;
  }
  return std::nullopt;
}

}  // namespace cinch::hooks
