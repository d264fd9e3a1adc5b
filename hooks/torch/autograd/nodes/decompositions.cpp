// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/autograd/nodes/decompositions.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <utility>

#include <torch/csrc/autograd/variable.h>

#include "hooks/torch/autograd/nodes/latest_nodes.h"
#include "hooks/torch/autograd/nodes/node_kinds.h"
#include "hooks/torch/autograd/nodes/node_views.h"
#include "hooks/torch/program/op_context.h"
#include "hooks/torch/program/parameter.h"

namespace cinch::hooks::decompositions {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;

constexpr int most_nodes = 64;

// Between a decomposition and what is saved afterwards there may be so many nodes, besides views.
constexpr int most_between = 5;

// Likewise before a decomposition: nodes of its operand's size, and nodes before these.
constexpr int most_of_size = 16;
constexpr int most_of_others = 4;

std::atomic<bool> any_noted{false};

bool is_decomposition(NodeKind kind) {
  return kind == NodeKind::eigenvectors || kind == NodeKind::singular_vectors ||
         kind == NodeKind::matrix_inverse;
}

/// Whether an output of a decomposition is the eigenvalues or singular values.
bool is_values(NodeKind decomposition, std::uint32_t output) {
  switch (decomposition) {
    case NodeKind::eigenvectors:
      return output == 0;
    case NodeKind::singular_vectors:
      return output == 1;
    default:
      return false;
  }
}

/// @param left How many more nodes may be looked at
bool leads_to_decomposition(const Edge& edge, int between, int& left) {
  if (!edge.is_valid() || --left < 0) return false;
  const NodeKind kind = kind_of(*edge.function);
  if (is_decomposition(kind)) return !is_values(kind, edge.input_nr);
  if (kind < NodeKind::view && ++between > most_between) return false;
  return std::ranges::any_of(edge.function->next_edges(), [&](const Edge& next) {
    return leads_to_decomposition(next, between, left);
  });
}

bool comes_of_decomposition(const c10::TensorImpl& tensor) {
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(tensor.autograd_meta());
  if (meta == nullptr || meta->grad_fn_ == nullptr) return false;
  int left = most_nodes;
  return leads_to_decomposition({meta->grad_fn_, meta->output_nr_}, 0, left);
}

/// The elements of what flows along the edge, in the forward; nullopt if that is not known.
std::optional<std::int64_t> elements(const Edge& edge) {
  const auto sizes = output_sizes(*edge.function, edge.input_nr);
  return sizes ? std::optional(c10::multiply_integers(*sizes)) : std::nullopt;
}

/// Whether the node takes a parameter of so many elements, as a layer does.
bool takes_parameter(const Node& node, std::int64_t least) {
  return std::ranges::any_of(node.next_edges(), [&](const Edge& edge) {
    const auto* const parameter = parameter_behind(edge);
    return parameter != nullptr && parameter->numel() >= least;
  });
}

/// The nodes on the way from a decomposition to what its matrix, or another operand, was made of:
/// the nearest first.
class Before {
 public:
  explicit Before(const Node& decomposition) {
    for (const Edge& edge : decomposition.next_edges()) {
      if (edge.is_valid()) add(edge, {.size = elements(edge)});
    }
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const Reached later = all_[i];
      for (const Edge& edge : later.node->next_edges()) add(edge, later);
    }
  }

  std::vector<std::uint32_t> numbers() const {
    std::vector<std::uint32_t> numbers;
    for (const Reached& each : all_) {
      numbers.push_back(static_cast<std::uint32_t>(each.node->sequence_nr()));
    }
    return numbers;
  }

 private:
  struct Reached {
    const Node* node = nullptr;
    std::optional<std::int64_t> size;  ///< elements of the operand
    int of_size = 0;                   ///< nodes of that size from the decomposition to here
    int of_others = 0;
  };

  /// @param by How the node behind the edge was reached, but for that node itself
  void add(const Edge& edge, Reached by) {
    if (!edge.is_valid() || all_.size() == most_nodes) return;
    by.node = edge.function.get();
    const bool is_known = std::ranges::find(all_, by.node, &Reached::node) != all_.end();
    if (is_known || parameter_behind(edge) != nullptr) return;
    const bool is_of_size = by.of_others == 0 && elements(edge) == by.size;
    if (kind_of(*by.node) < NodeKind::view) ++(is_of_size ? by.of_size : by.of_others);
    if (by.of_size > most_of_size || by.of_others > most_of_others) return;
    // What a layer saves meets exact gradients. A single number scales the matrix.
    if (!takes_parameter(*by.node, is_of_size ? 2 : 1)) all_.push_back(by);
  }

  std::vector<Reached> all_;
};

}  // namespace

const Node* note_result(const at::Tensor& result) {
  if (!result.defined()) return nullptr;
  const Node* const node = node_of(result);
  if (node == nullptr || !is_decomposition(kind_of(*node))) return nullptr;
  any_noted.store(true, std::memory_order_relaxed);
  record_tensors();
  thread_local std::optional<std::uint64_t> latest;
  return std::exchange(latest, node->sequence_nr()) == node->sequence_nr() ? nullptr : node;
}

std::vector<std::uint32_t> nodes_before(const Node& decomposition) {
  return Before(decomposition).numbers();
}

bool is_function(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 7> known = {
      "Diagonalization",   "InvQuad", "InvQuadLogdet", "PivotedCholesky",
      "RootDecomposition", "Solve",   "SqrtInvMatmul"};
  return std::ranges::find(known, name) != known.end();
}

bool reach(const at::Tensor& operand, bool for_others) {
  if (!any_noted.load(std::memory_order_relaxed)) return false;
  const c10::TensorImpl* const tensor = operand.unsafeGetTensorImpl();
  const OperatorFrame* const frame = current_frame(Recording::tensors);
  const bool counts = !for_others || frame == nullptr;
  if (counts && comes_of_decomposition(*tensor)) return true;
  return frame != nullptr && takes_besides(*frame, *tensor, comes_of_decomposition);
}

}  // namespace cinch::hooks::decompositions
