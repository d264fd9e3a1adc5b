// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

namespace cinch::hooks {

/// Nodes whose result can be computed again, or can be found among what they saved.
enum class NodeKind : std::uint8_t {
  other,
  layer_norm,
  rms_norm,  ///< CUDA's; on the CPU PyTorch computes it by several operators
  batch_norm,
  cudnn_batch_norm,
  group_norm,
  relu,
  gelu,
  silu,
  leaky_relu,
  leaky_relu_in_place,
  elu,
  elu_in_place,
  hardswish,
  hardtanh,
  hardsigmoid,
  mish,
  softplus,
  sigmoid,
  tanh,
  pow,
  sin,
  cos,
  exp,
  sigmoid_backward,  ///< of a gradient and a result, as is tanh_backward
  tanh_backward,
  add,
  sub,
  subtract_from_number,
  mul,
  div,
  max_pool,
  avg_pool,
  upsample_nearest,
  upsample_bilinear,
  cat,
  pad,
  roll,
  index_select,
  index,
  dropout,
  attention,
  flash_attention,  ///< of CUDA, as are the next two
  efficient_attention,
  cudnn_attention,
  copy,   ///< to other strides or to another element type
  found,  ///< not computed: it saved its own result
  view,   ///< this and those below: views (node_views.h)
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

/// The saved variable of the node's own result; null if the node does not save its result.
torch::autograd::SavedVariable* result_of(torch::autograd::Node& node);

}  // namespace cinch::hooks
