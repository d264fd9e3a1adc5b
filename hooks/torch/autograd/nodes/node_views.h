// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <c10/util/DimVector.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include "hooks/torch/stash/saved/layout.h"

namespace cinch::hooks {

/// The sizes of the node's output `output`, in the forward; nullopt where they are not plain
/// numbers.
std::optional<c10::DimVector> output_sizes(const torch::autograd::Node& node, std::uint32_t output);

/// How the node's output `output` views the node's input.
/// @param input The input's layout. @return nullopt if the node is no view, or one unknown here
std::optional<View> view_by(const torch::autograd::Node& node, std::uint32_t output,
                            const Layout& input);

/// How the node's output `output` views the first output of `first`, which lies as `whole` says.
/// @pre the only inputs of `node`, of the node that made that, and so on lead to it
/// @return nullopt if a view is unknown here
std::optional<View> view_through(const torch::autograd::Node& node, std::uint32_t output,
                                 const torch::autograd::Node& first, const Layout& whole);

}  // namespace cinch::hooks
