// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/nodes/node_kinds.h"

#include <typeindex>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include <torch/csrc/autograd/generated/Functions.h>

#include "hooks/torch/autograd/nodes/functions.h"

namespace cinch::hooks {
namespace {

namespace generated = torch::autograd::generated;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using Kind = NodeKind;

struct Known {
  Kind kind = Kind::other;
  SavedVariable* (*result)(Node&) = nullptr;  // null: the node does not save its result
  const Function* function = nullptr;
};

/// A node that saves its result.
template <typename NodeType>
std::pair<const std::type_index, Known> with_result(Kind kind = Kind::found) {
  const auto result = [](Node& node) -> SavedVariable* {
    return &static_cast<NodeType&>(node).result_;
  };
  return {typeid(NodeType), {kind, result}};
}

/// The same for attention, which calls it otherwise.
template <typename NodeType>
std::pair<const std::type_index, Known> with_output(Kind kind) {
  const auto output = [](Node& node) -> SavedVariable* {
    return &static_cast<NodeType&>(node).output_;
  };
  return {typeid(NodeType), {kind, output}};
}

const Known& known(const Node& node) {
  static const std::unordered_map<std::type_index, Known> all = {
      {typeid(generated::NativeLayerNormBackward0), {Kind::layer_norm}},
      {typeid(generated::FusedRmsNormBackward0), {Kind::rms_norm}},
      {typeid(generated::NativeBatchNormBackward0), {Kind::batch_norm}},
      {typeid(generated::CudnnBatchNormBackward0), {Kind::cudnn_batch_norm}},
      {typeid(generated::NativeGroupNormBackward0), {Kind::group_norm}},
      {typeid(generated::SigmoidBackwardBackward0), {Kind::sigmoid_backward}},
      {typeid(generated::TanhBackwardBackward0), {Kind::tanh_backward}},
      {typeid(generated::AddBackward0), {Kind::add}},
      {typeid(generated::SubBackward0), {Kind::sub}},
      {typeid(generated::MulBackward0), {Kind::mul}},
      {typeid(generated::MulBackward1), {Kind::mul_number}},
      {typeid(generated::DivBackward0), {Kind::div}},
      {typeid(generated::DivBackward1), {Kind::div_number}},
      {typeid(generated::PreluKernelBackward0), {Kind::prelu}},
      {typeid(generated::AddcmulBackward0), {Kind::addcmul}},
      {typeid(generated::MaxPool2DWithIndicesBackward0), {Kind::max_pool}},
      {typeid(generated::MaxPool3DWithIndicesBackward0), {Kind::max_pool_3d}},
      {typeid(generated::ToCopyBackward0), {Kind::copy}},
      {typeid(generated::RsubBackward1), {Kind::subtract_from_number}},
      {typeid(generated::CloneBackward0), {Kind::copy}},
      {typeid(generated::CatBackward0), {Kind::cat}},
      {typeid(generated::StackBackward0), {Kind::stack}},
      {typeid(generated::RollBackward0), {Kind::roll}},
      {typeid(generated::IndexSelectBackward0), {Kind::index_select}},
      {typeid(generated::IndexBackward0), {Kind::index}},
      {typeid(generated::NativeDropoutBackward0), {Kind::dropout}},
      with_output<generated::ScaledDotProductFlashAttentionForCpuBackward0>(Kind::attention),
      with_output<generated::ScaledDotProductFlashAttentionBackward0>(Kind::flash_attention),
      with_output<generated::ScaledDotProductEfficientAttentionBackward0>(
          Kind::efficient_attention),
      with_output<generated::ScaledDotProductCudnnAttentionBackward0>(Kind::cudnn_attention),
      {typeid(generated::AddmmBackward0), {Kind::matrix_product}},
      {typeid(generated::MmBackward0), {Kind::matrix_product}},
      {typeid(generated::LinalgEigBackward0), {Kind::eigenvectors}},
      {typeid(generated::LinalgEighBackward0), {Kind::eigenvectors}},
      {typeid(generated::LinalgSvdBackward0), {Kind::singular_vectors}},
      {typeid(generated::LinalgCholeskyExBackward0), {Kind::matrix_inverse}},
      {typeid(generated::LinalgDetBackward0), {Kind::matrix_inverse}},
      {typeid(generated::LinalgInvExBackward0), {Kind::matrix_inverse}},
      {typeid(generated::LinalgLstsqBackward0), {Kind::matrix_inverse}},
      {typeid(generated::LinalgLuBackward0), {Kind::matrix_inverse}},
      {typeid(generated::LinalgLuFactorExBackward0), {Kind::matrix_inverse}},
      {typeid(generated::LinalgPinvBackward0), {Kind::matrix_inverse}},
      {typeid(generated::LinalgQrBackward0), {Kind::matrix_inverse}},
      {typeid(generated::LinalgSlogdetBackward0), {Kind::matrix_inverse}},
      {typeid(generated::LinalgSolveExBackward0), {Kind::matrix_inverse}},
      {typeid(generated::ViewBackward0), {Kind::view}},
      {typeid(generated::UnsafeViewBackward0), {Kind::view}},
      {typeid(generated::ReshapeAliasBackward0), {Kind::view}},
      {typeid(generated::UnsqueezeBackward0), {Kind::view}},
      {typeid(generated::SqueezeBackward0), {Kind::view}},
      {typeid(generated::SqueezeBackward1), {Kind::view}},
      {typeid(generated::SqueezeBackward2), {Kind::view}},
      {typeid(generated::PermuteBackward0), {Kind::permute}},
      {typeid(generated::TransposeBackward0), {Kind::transpose}},
      {typeid(generated::TBackward0), {Kind::t}},
      {typeid(generated::ExpandBackward0), {Kind::expand}},
      {typeid(generated::SliceBackward0), {Kind::slice}},
      {typeid(generated::SelectBackward0), {Kind::select}},
      {typeid(generated::SplitBackward0), {Kind::split}},
      {typeid(generated::UnbindBackward0), {Kind::unbind}},
      with_result<generated::ReluBackward0>(Kind::relu),
      with_result<generated::SoftmaxBackward0>(),
      with_result<generated::SafeSoftmaxBackward0>(),
      with_result<generated::LogSoftmaxBackward0>(),
      with_result<generated::SqrtBackward0>(),
      with_result<generated::RsqrtBackward0>(),
      with_result<generated::ReciprocalBackward0>(),
  };
  const auto known_by = [](std::type_index type) -> Known {
    if (const auto found = all.find(type); found != all.end()) return found->second;
    const auto function = functions().find(type);
    if (function == functions().end()) return {};
    return {Kind::function, function->second.result, &function->second};
  };
  thread_local std::unordered_map<const std::type_info*, Known> seen;  // by address, not by name
  const std::type_info& type = typeid(node);
  const auto [it, is_new] = seen.try_emplace(&type);
  if (is_new) it->second = known_by(type);
  return it->second;
}

}  // namespace

NodeKind kind_of(const Node& node) {
  return known(node).kind;
}

c10::ScalarType type_of(const Node& node) {
  if (node.num_inputs() == 0) return c10::ScalarType::Undefined;
  return c10::typeMetaToScalarType(node.input_metadata(0).dtype());
}

const Function& function_of(const Node& node) {
  return *known(node).function;
}

SavedVariable* result_of(Node& node) {
  const auto result = known(node).result;
  return result == nullptr ? nullptr : result(node);
}

}  // namespace cinch::hooks
