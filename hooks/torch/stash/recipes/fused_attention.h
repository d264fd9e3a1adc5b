// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "hooks/torch/stash/recipes/arithmetic.h"
#include "hooks/torch/stash/recipes/recipe.h"

namespace cinch::hooks {

/// scaled_dot_product_attention without dropout, by the kernel that `step` names.
/// @param others Key, value and mask; none: undefined
/// @param out Receives the part of the result that the step is for @return the other part
at::Tensor fused_attention(const Recipe::Step& step, const at::Tensor& query,
                           const Arithmetic::Others& others, at::Tensor& out);

}  // namespace cinch::hooks
