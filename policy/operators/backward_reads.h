// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/entry.h"

namespace cinch::policy {

/// What the backward of a compiled region reads each of the tensors for that its forward saves, in
/// the order in which it saves them. What backward computes something from is read as a factor,
/// "aten::mul self". A tensor has no reads if its reads are not all known. No tensors: the graph
/// can't be understood.
/// @param graph Text as policy/operators/backward_graph.h describes it
std::vector<std::vector<BackwardRead>> backward_reads(std::string_view graph);

/// The reads as the report shows them: "mm self, gelu self".
std::string in_words(const std::vector<BackwardRead>& reads);

}  // namespace cinch::policy
