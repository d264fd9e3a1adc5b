// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// Measures what compression does to an operator's gradients. Before backward runs a node that
/// reads a watched entry, the node runs twice more: once with the decoded and once with the exact
/// values. Applies to nodes of PyTorch's generated formulas only. Costs nothing in a step in which
/// nothing is watched.

/// Registers the callback on backward's nodes, switched off. @pre called once
void observe_backward();

/// Switches that callback on or off. Does nothing if observe_backward was not called.
void probe_gradients(bool on) noexcept;

}  // namespace cinch::hooks
