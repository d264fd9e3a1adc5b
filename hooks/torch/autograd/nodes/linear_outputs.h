// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace cinch::hooks {

/// Whether a linear layer computed the tensor, as its autograd nodes tell. Between may lie views,
/// copies, products with what needs no gradient, concatenations, and sums of such: the layer may
/// have an adapter (LoRA), and attention's queries and keys have rotary positions.
bool is_linear_output(const at::Tensor& tensor);

}  // namespace cinch::hooks
