// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "policy/look.h"

namespace cinch::hooks {

/// Shows an adaptive policy what backward computes, in the steps in which it wants to know: squared
/// norms of gradients per node and channel, weights' gradients, and how a node's results change
/// when an activation is held otherwise. A BACKWARD_FUNCTION callback, switched off otherwise, sees
/// each node before it runs, with the gradients that come in. Which entry a node reads is asked of
/// the node's own saved variable: neither sequence numbers nor shapes are matched, so that two
/// tensors are never mixed.
///
/// Nothing is held past the callback: no gradient, no node.

/// Registers the observer, switched off. @pre called once, before the stash saves
void observe_nodes();

/// A step begins in which this is wanted; nothing when observe_nodes was not called.
void observe_gradients(const policy::Wants& wants) noexcept;

}  // namespace cinch::hooks
