// SPDX-License-Identifier: Apache-2.0
//
// Adapts to the differences of autograd's nodes between torch minors, by torch's declarations.
#pragma once

#include <memory>
#include <string>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

namespace cinch::hooks {

namespace detail {

template <typename Pointer>
struct WeakOf;
template <typename T>
struct WeakOf<std::shared_ptr<T>> {
  using type = std::weak_ptr<T>;
};
template <typename T>
struct WeakOf<c10::intrusive_ptr<T>> {
  using type = c10::weak_intrusive_ptr<T>;
};

template <typename Node>
concept TellsForwardName = requires(const Node& node) {
  node.forward_op_name();
};

template <typename Node>
std::string name_in_errors(const Node& node) {
  if constexpr (TellsForwardName<Node>) {
    return node.forward_op_name();
  } else {
    return node.name();
  }
}

}  // namespace detail

/// How autograd owns its nodes: std::shared_ptr until torch 2.13, c10::intrusive_ptr since 2.14.
using NodePointer = decltype(torch::autograd::Edge::function);

/// The weak counterpart: constructed and assigned from a NodePointer; lock() gives one back.
using WeakNodePointer = detail::WeakOf<NodePointer>::type;

/// The name of `node` in PyTorch's errors: "ExpBackward0" until torch 2.13, "Exp" since 2.14.
inline std::string name_in_errors(const torch::autograd::Node& node) {
  return detail::name_in_errors(node);
}

/// The name in PyTorch's errors of the node of a view whose base was modified.
inline constexpr const char* rebased_view_in_errors =
    detail::TellsForwardName<torch::autograd::Node> ? "AsStrided" : "AsStridedBackward0";

}  // namespace cinch::hooks
