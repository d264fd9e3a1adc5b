// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace cinch::hooks {

struct Entry;

/// What compression does to an operator's gradients: before backward runs a node that reads a
/// watched entry, the node is run twice for measurement, once with the decoded values and once with
/// the exact ones. Only nodes of PyTorch's generated formulas, which have no other effect than
/// their result; a step in which nothing is watched costs nothing.

/// One such run, as the stash sees it: which values to give, and who asked for them.
struct GradientProbe {
  bool exact = false;
  std::vector<Entry*> read;  ///< watched entries that the node read
};

/// The run that is under way on this thread; null in ordinary backwards.
GradientProbe* current_probe() noexcept;

/// Registers the observer of backward's nodes, switched off. @pre called once
void observe_backward();

/// Switches it on or off; nothing when observe_backward was not called.
void probe_gradients(bool on) noexcept;

}  // namespace cinch::hooks
