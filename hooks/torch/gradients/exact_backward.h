// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// Computes a backward's exact gradients beside those that the program gets. Before backward runs a
/// node, the node runs once more: on the exact values of what it saved, and on the exact gradients
/// that the nodes after it gave. The parameters' gradients of both are compared, for the appraisal
/// of a policy (stash/adapting/appraisal.h).
///
/// Nodes that may not run twice pass on what the program gets: errors made before them aren't
/// traced any further.

/// Registers the callback on backward's nodes, switched off. @pre called once
void observe_exact_backward();

/// A growth begins: forgets unused gradients of the backwards so far, and switches the callback on
/// or off. No lock may be held.
void compare_backwards(bool on) noexcept;

}  // namespace cinch::hooks
