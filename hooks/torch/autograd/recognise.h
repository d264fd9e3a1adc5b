// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "hooks/torch/stash/recipe.h"

namespace cinch::hooks {

/// How the values of `tensor`'s storage follow from what its producers saved, told by autograd's
/// nodes alone; null where that isn't known, not proved yet, or where the storage is held already.
/// The recipe holds its sources: it must end in the stash, by Stash::save() or
/// Derivation::release_sources(). Never throws.
///
/// Known: batch norm in training, group and layer norm, GELU, SiLU of an input that is held; ReLU
/// of a norm's result or of the sum of a norm's result and a value that is held; float32 on the
/// CPU.
std::unique_ptr<Recipe> recognise(const at::Tensor& tensor, const Site& site) noexcept;

}  // namespace cinch::hooks
