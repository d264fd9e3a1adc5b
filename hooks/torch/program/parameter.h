// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

namespace cinch::hooks {

/// Whether `tensor` is a parameter, or derived from one by views and dtype casts only (a transposed
/// weight, autocast's bf16 copy): memory that lives as long as the parameter anyway, or that is
/// shared by the whole step. Never throws; never creates autograd metadata.
bool derives_from_parameter(const at::Tensor& tensor) noexcept;

/// The parameter into whose gradient what flows along `edge` is accumulated, changed by views and
/// dtype casts only; null when there is none.
const c10::TensorImpl* parameter_behind(const torch::autograd::Edge& edge) noexcept;

}  // namespace cinch::hooks
