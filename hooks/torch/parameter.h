// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace cinch::hooks {

/// Whether `tensor` is a parameter, or derived from one by views and dtype casts only (a transposed
/// weight, autocast's bf16 copy): memory that lives as long as the parameter anyway, or that is
/// shared by the whole step. Never throws; never creates autograd metadata.
bool derives_from_parameter(const at::Tensor& tensor) noexcept;

}  // namespace cinch::hooks
