// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/nodes/decompositions.h"

#include <algorithm>
#include <atomic>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "hooks/torch/autograd/nodes/latest_nodes.h"
#include "hooks/torch/autograd/nodes/node_kinds.h"
#include "hooks/torch/program/op_context.h"

namespace cinch::hooks::decompositions {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;

// Between vectors and what is saved there may be so many nodes, besides views.
constexpr int most_between = 5;
constexpr int most_nodes = 64;

std::atomic<bool> any_noted{false};

bool is_values(NodeKind decomposition, std::uint32_t output) {
  return output == (decomposition == NodeKind::singular_vectors ? 1 : 0);
}

bool is_decomposition(NodeKind kind) {
  return kind == NodeKind::eigenvectors || kind == NodeKind::singular_vectors;
}

/// @param left How many more nodes may be looked at
bool leads_to_vectors(const Edge& edge, int between, int& left) {
  if (!edge.is_valid() || --left < 0) return false;
  const NodeKind kind = kind_of(*edge.function);
  if (is_decomposition(kind)) return !is_values(kind, edge.input_nr);
  if (kind < NodeKind::view && ++between > most_between) return false;
  return std::ranges::any_of(edge.function->next_edges(), [&](const Edge& next) {
    return leads_to_vectors(next, between, left);
  });
}

bool is_made_of_vectors(const c10::TensorImpl& tensor) {
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(tensor.autograd_meta());
  if (meta == nullptr || meta->grad_fn_ == nullptr) return false;
  int left = most_nodes;
  return leads_to_vectors({meta->grad_fn_, meta->output_nr_}, 0, left);
}

}  // namespace

void note_result(const at::Tensor& result) {
  if (any_noted.load(std::memory_order_relaxed) || !result.defined()) return;
  const Node* const node = node_of(result);
  if (node == nullptr || !is_decomposition(kind_of(*node))) return;
  any_noted.store(true, std::memory_order_relaxed);
  record_tensors();
}

bool reach(const at::Tensor& operand) {
  if (!any_noted.load(std::memory_order_relaxed)) return false;
  if (is_made_of_vectors(*operand.unsafeGetTensorImpl())) return true;
  const OperatorFrame* const frame = current_frame(Recording::tensors);
  return frame != nullptr && takes(*frame, is_made_of_vectors);
}

}  // namespace cinch::hooks::decompositions
