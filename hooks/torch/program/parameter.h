// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

namespace cinch::hooks {

/// Whether `tensor` is a parameter, or made from one by views and dtype casts only (a transposed
/// weight, autocast's bf16 copy). Its memory then lives as long as the parameter, or is shared by
/// the whole step. Never throws; never creates autograd metadata.
bool derives_from_parameter(const at::Tensor& tensor) noexcept;

/// The parameter whose gradient accumulates what flows along `edge`, with only views and dtype
/// casts between; null if there is none.
const c10::TensorImpl* parameter_behind(const torch::autograd::Edge& edge) noexcept;

}  // namespace cinch::hooks
