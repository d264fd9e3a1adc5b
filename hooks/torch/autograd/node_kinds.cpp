// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/node_kinds.h"

#include <typeindex>
#include <typeinfo>
#include <unordered_map>

#include <torch/csrc/autograd/generated/Functions.h>

namespace cinch::hooks {

namespace generated = torch::autograd::generated;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using Kind = NodeKind;

NodeKind kind_of(const Node& node) {
  static const std::unordered_map<std::type_index, Kind> kinds = {
      {typeid(generated::NativeLayerNormBackward0), Kind::layer_norm},
      {typeid(generated::NativeBatchNormBackward0), Kind::batch_norm},
      {typeid(generated::NativeGroupNormBackward0), Kind::group_norm},
      {typeid(generated::ReluBackward0), Kind::relu},
      {typeid(generated::GeluBackward0), Kind::gelu},
      {typeid(generated::SiluBackward0), Kind::silu},
      {typeid(generated::LeakyReluBackward0), Kind::leaky_relu},
      {typeid(generated::LeakyReluBackward1), Kind::leaky_relu_in_place},
      {typeid(generated::EluBackward0), Kind::elu},
      {typeid(generated::EluBackward1), Kind::elu_in_place},
      {typeid(generated::HardswishBackward0), Kind::hardswish},
      {typeid(generated::HardtanhBackward0), Kind::hardtanh},
      {typeid(generated::HardsigmoidBackward0), Kind::hardsigmoid},
      {typeid(generated::MishBackward0), Kind::mish},
      {typeid(generated::SoftplusBackward0), Kind::softplus},
      {typeid(generated::AddBackward0), Kind::add},
      {typeid(generated::SubBackward0), Kind::sub},
      {typeid(generated::MulBackward0), Kind::mul},
      {typeid(generated::DivBackward0), Kind::div},
      {typeid(generated::MaxPool2DWithIndicesBackward0), Kind::max_pool},
      {typeid(generated::ToCopyBackward0), Kind::copy},
      {typeid(generated::RsubBackward1), Kind::subtract_from_number},
      {typeid(generated::CloneBackward0), Kind::copy},
      {typeid(generated::CatBackward0), Kind::cat},
      {typeid(generated::AvgPool2DBackward0), Kind::avg_pool},
      {typeid(generated::UpsampleNearest2DBackward0), Kind::upsample_nearest},
      {typeid(generated::UpsampleBilinear2DBackward0), Kind::upsample_bilinear},
      {typeid(generated::ViewBackward0), Kind::view},
      {typeid(generated::UnsafeViewBackward0), Kind::view},
      {typeid(generated::ReshapeAliasBackward0), Kind::view},
      {typeid(generated::UnsqueezeBackward0), Kind::view},
      {typeid(generated::SqueezeBackward0), Kind::view},
      {typeid(generated::SqueezeBackward1), Kind::view},
      {typeid(generated::SqueezeBackward2), Kind::view},
      {typeid(generated::PermuteBackward0), Kind::permute},
      {typeid(generated::TransposeBackward0), Kind::transpose},
      {typeid(generated::TBackward0), Kind::t},
      {typeid(generated::ExpandBackward0), Kind::expand},
      {typeid(generated::SliceBackward0), Kind::slice},
      {typeid(generated::SelectBackward0), Kind::select},
      {typeid(generated::SplitBackward0), Kind::split},
      {typeid(generated::UnbindBackward0), Kind::unbind},
      {typeid(generated::SigmoidBackward0), Kind::sigmoid},
      {typeid(generated::TanhBackward0), Kind::tanh},
      {typeid(generated::SoftmaxBackward0), Kind::softmax},
  };
  thread_local std::unordered_map<const std::type_info*, Kind> known;  // by address, not by name
  const std::type_info& type = typeid(node);
  const auto [it, is_new] = known.try_emplace(&type, Kind::other);
  if (is_new) {
    const auto found = kinds.find(type);
    if (found != kinds.end()) it->second = found->second;
  }
  return it->second;
}

/// The saved variable of the node's own result; null if the node does not save its result.
SavedVariable* result_of(Node& node) {
  switch (kind_of(node)) {
    case Kind::relu:
      return &static_cast<generated::ReluBackward0&>(node).result_;
    case Kind::sigmoid:
      return &static_cast<generated::SigmoidBackward0&>(node).result_;
    case Kind::tanh:
      return &static_cast<generated::TanhBackward0&>(node).result_;
    case Kind::softmax:
      return &static_cast<generated::SoftmaxBackward0&>(node).result_;
    default:
      return nullptr;
  }
}

}  // namespace cinch::hooks
