// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// What compression does to an operator's gradients: before backward runs a node that reads a
/// watched entry, the node is run twice for measurement, once with the decoded values and once with
/// the exact ones. Only nodes of PyTorch's generated formulas; a step in which nothing is watched
/// costs nothing.

/// Registers the observer of backward's nodes, switched off. @pre called once
void observe_backward();

/// Switches it on or off; nothing when observe_backward was not called.
void probe_gradients(bool on) noexcept;

}  // namespace cinch::hooks
