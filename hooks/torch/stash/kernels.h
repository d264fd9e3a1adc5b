// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "hooks/torch/stash/layout.h"
#include "hooks/torch/stash/recipe.h"

/// PyTorch's CPU kernels, called without its dispatcher: no autograd, no mode and no observer sees
/// them.
namespace cinch::hooks::kernels {

/// A tensor in memory of another owner.
at::Tensor blob(const void* data, const Layout& layout, c10::ScalarType type);

/// `count` of the tensor's places along a dimension, in its memory. @pre it has as many
at::Tensor slice_of(const at::Tensor& tensor, std::int64_t dim, std::int64_t first,
                    std::int64_t count);

void copy(const at::Tensor& from, at::Tensor& to);

/// The values of a step's `others`, at most three; those that there are not are undefined.
using Others = std::array<at::Tensor, 3>;

/// Applies a step. The tensors lie as in the forward: for GELU, PyTorch chooses the kernel by
/// whether its input is contiguous, and the kernels differ in the last bit.
/// @return false, and nothing is done, if it is a step for kernels of our own
bool apply(const Recipe::Step& step, const at::Tensor& in, const Others& others, at::Tensor& out);

}  // namespace cinch::hooks::kernels
