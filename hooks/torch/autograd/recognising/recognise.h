// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "hooks/torch/program/site.h"
#include "hooks/torch/stash/holding/derivation.h"

namespace cinch::hooks {

/// Builds a recipe that computes the values of `tensor`'s storage from what its producers saved.
/// Goes by autograd's nodes alone. Null if there is no recipe, if it is not proved yet, or if the
/// stash holds the storage already. The recipe holds its sources. Never throws.
///
/// docs/derived.md lists the operators that have recipes, on the CPU.
/// @param site Where the tensor is saved @pre no lock of Cinch's is held
OfferedRecipe recognise(const at::Tensor& tensor, Site& site) noexcept;

}  // namespace cinch::hooks
