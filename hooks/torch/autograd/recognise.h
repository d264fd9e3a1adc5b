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
/// docs/derived.md lists what is known, of float32 on the CPU.
std::unique_ptr<Recipe> recognise(const at::Tensor& tensor, const Site& site) noexcept;

}  // namespace cinch::hooks
