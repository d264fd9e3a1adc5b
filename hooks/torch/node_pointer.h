// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

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
}  // namespace detail

/// How autograd owns its nodes: std::shared_ptr until torch 2.13, c10::intrusive_ptr since 2.14.
using NodePointer = decltype(torch::autograd::Edge::function);

/// The weak pointer to that: made from a NodePointer, assigned one, and locked.
using WeakNodePointer = detail::WeakOf<NodePointer>::type;

}  // namespace cinch::hooks
