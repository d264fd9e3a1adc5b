// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "policy/adapting/look.h"

namespace cinch::hooks {

/// Shows an adaptive policy what backward computes, in the steps for which the policy asks: squared
/// norms of gradients per node and channel, weights' gradients, and how a node's results change
/// when an activation is held differently. A BACKWARD_FUNCTION callback sees each node before it
/// runs, with its incoming gradients; it is switched off in other steps. The node's own saved
/// variable tells which entry the node reads: matching by sequence number or shape could confuse
/// two tensors. The callback keeps no gradient and no node.

/// Registers the observer, switched off. @pre called once, before the stash saves
void observe_nodes();

/// A step begins that shall find out `wants`. Does nothing if observe_nodes was not called.
void observe_gradients(const policy::Wants& wants) noexcept;

}  // namespace cinch::hooks
