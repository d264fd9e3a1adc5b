// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "hooks/torch/stash/entry/source_errors.h"
#include "hooks/torch/stash/recipes/recipe.h"

/// Recipes that compute each element from the one at the same place in memory of a single source,
/// such as a batch norm and ReLU. The host applies them to pieces of the source while it is decoded
/// (Codec::decode_with), so values are written once.
namespace cinch::hooks {

/// Whether the recipe is one of these, in float32, of a source of float32 with the same strides,
/// and of our own kernels alone.
bool is_pointwise(const Recipe& recipe);

/// Whether the first step needs the errors of the source's decoded values.
/// @pre is_pointwise(recipe)
bool needs_errors(const Recipe& recipe);

/// Applies the recipe to elements [begin, end) of the source's values, in place.
/// @param mask As for Recipe::compute @param errors If needs_errors(recipe):
/// SourceErrors::are_even()
/// @pre is_pointwise(recipe); begin is a multiple of 8
void apply_pointwise(const Recipe& recipe, const std::byte* mask, const SourceErrors& errors,
                     std::int64_t begin, std::int64_t end, float* values);

}  // namespace cinch::hooks
