// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

namespace cinch::hooks {

struct Function;

/// Nodes whose result can be computed again, or can be found among what they saved.
enum class NodeKind : std::uint8_t {
  other,
  layer_norm,
  rms_norm,  ///< CUDA's; on the CPU PyTorch computes it by several operators
  batch_norm,
  cudnn_batch_norm,
  group_norm,
  relu,
  function,          ///< of one tensor: function_of()
  sigmoid_backward,  ///< of a gradient and a result, as is tanh_backward
  tanh_backward,
  add,
  sub,
  subtract_from_number,
  mul,
  mul_number,  ///< by a Python number that the node knows, as div_number
  div,
  div_number,
  prelu,
  addcmul,
  max_pool,
  max_pool_3d,
  cat,
  stack,
  roll,
  index_select,
  index,
  dropout,
  attention,
  flash_attention,  ///< of CUDA, as are the next two
  efficient_attention,
  cudnn_attention,
  copy,          ///< to other strides or to another element type
  found,         ///< not computed: it saved its own result
  eigenvectors,  ///< not computed, as the next (decompositions.h)
  singular_vectors,
  matrix_product,  ///< not computed: of two matrices, as a linear layer's
  matrix_inverse,  ///< also its factors, its determinant, and what it solves
  view,            ///< this and those below: views (node_views.h)
  permute,
  transpose,
  t,
  expand,
  slice,
  select,
  split,
  unbind,
};

NodeKind kind_of(const torch::autograd::Node& node);

/// The element type of the node's first output, in the forward.
c10::ScalarType type_of(const torch::autograd::Node& node);

/// @pre kind_of(node) is `function`
const Function& function_of(const torch::autograd::Node& node);

/// The saved variable of the node's own result; null if the node does not save its result.
torch::autograd::SavedVariable* result_of(torch::autograd::Node& node);

}  // namespace cinch::hooks
