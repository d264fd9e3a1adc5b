// SPDX-License-Identifier: Apache-2.0
//
// What differs in autograd's nodes between the minors of torch, taken from what torch declares.
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

/// The weak pointer to that: made from a NodePointer, assigned one, and locked.
using WeakNodePointer = detail::WeakOf<NodePointer>::type;

/// What PyTorch's errors call a node: "ExpBackward0" until torch 2.13, "Exp" since 2.14.
inline std::string name_in_errors(const torch::autograd::Node& node) {
  return detail::name_in_errors(node);
}

/// What they call the node of a view whose base was modified.
inline constexpr const char* rebased_view_in_errors =
    detail::TellsForwardName<torch::autograd::Node> ? "AsStrided" : "AsStridedBackward0";

}  // namespace cinch::hooks
