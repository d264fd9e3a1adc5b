// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <c10/core/Device.h>
#include <torch/csrc/autograd/function.h>

#include "hooks/torch/stash/recipes/recipe.h"
#include "hooks/torch/stash/saved/layout.h"

namespace cinch::hooks {

/// Places that a node picks along dimensions of its input, as index_select() and `x[index]` do.
struct Gathered {
  Recipe::Step step;  ///< of the input, seen with `sizes`
  /// The input's sizes, with the dimensions of a mask as one.
  c10::DimVector sizes;
};

/// How `node` gathers what it puts out. On the host the index is copied: the program may change its
/// own before backward. On a CUDA device it is the program's until Holding::own_constants().
/// @param input The input's sizes @param want The result's layout
/// @return nullopt where recipes don't: by several indices, by one that is not small beside the
///   result, or little of the input @pre the node is locked
std::optional<Gathered> gathered_by(torch::autograd::Node& node, const c10::DimVector& input,
                                    const Layout& want, c10::Device device);

}  // namespace cinch::hooks
