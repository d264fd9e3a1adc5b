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

/// How the node's output `output` views the first output of `first`, which lies as `whole` says, by
/// at most `most_views` nodes. nullopt: it does not, or by nodes that are unknown here.
std::optional<View> view_through(const torch::autograd::Node& node, std::uint32_t output,
                                 const torch::autograd::Node& first, const Layout& whole,
                                 int most_views);

}  // namespace cinch::hooks
