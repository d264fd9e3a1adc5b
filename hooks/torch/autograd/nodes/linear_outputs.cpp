// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/nodes/linear_outputs.h"

#include <algorithm>

#include <torch/csrc/autograd/function.h>

#include "hooks/torch/autograd/nodes/node_kinds.h"

namespace cinch::hooks {
namespace {

using torch::autograd::Edge;

constexpr int most_nodes = 32;  // that are looked at

// Sums within sums: of an adapter, of rotated pairs. A residual stream has more.
constexpr int most_sums = 2;

/// @param left How many more nodes may be looked at
bool leads_to_product(const Edge& edge, int sums, int& left) {
  if (!edge.is_valid() || --left < 0) return false;
  const auto leads = [&](const Edge& next) { return leads_to_product(next, sums, left); };
  const auto& edges = edge.function->next_edges();
  switch (const NodeKind kind = kind_of(*edge.function)) {
    case NodeKind::matrix_product:
      return true;
    case NodeKind::add:
      return ++sums <= most_sums && std::ranges::all_of(edges, leads);
    case NodeKind::cat:
      return std::ranges::any_of(edges, leads);
    case NodeKind::mul:
      return std::ranges::count_if(edges, &Edge::is_valid) == 1 &&
             std::ranges::any_of(edges, leads);
    default: {
      const bool moves = kind >= NodeKind::view || kind == NodeKind::copy ||
                         kind == NodeKind::mul_number || kind == NodeKind::div_number;
      return moves && !edges.empty() && leads(edges[0]);
    }
  }
}

}  // namespace

bool is_linear_output(const at::Tensor& tensor) {
  int left = most_nodes;
  return leads_to_product(Edge(tensor.grad_fn(), 0), 0, left);
}

}  // namespace cinch::hooks
