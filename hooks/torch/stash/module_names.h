// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

namespace cinch::hooks {

struct EntryRow;

/// Names of the program's modules, for the report, without a change to the program.
///
/// When backward first reads an entry, the autograd graph is searched for a parameter: one of the
/// reading node's own (a convolution's weight), or else the nearest one before it (a ReLU's input
/// comes "after" a batch norm). At the next optimizer step, in a Python thread, the parameters are
/// looked up among the torch.nn.Module objects that the interpreter knows. This only reads
/// dictionaries; none of the program's code is called. Programs without Python or without an
/// optimizer of torch.optim have no names.

/// Nothing is named before this call: looking the parameters up takes tens of milliseconds.
void want_module_names() noexcept;

/// Notes the parameter of the entry of `row`, found from the node that the calling thread executes;
/// does nothing outside of backward. @pre one of the node's saved tensors is being unpacked
void note_module(EntryRow& row) noexcept;

/// An optimizer step begins in this thread: looks up the names of the noted parameters. Costs one
/// atomic load when there are none.
void name_modules() noexcept;

/// For holding the lock over a fork.
std::mutex& module_names_mutex() noexcept;

}  // namespace cinch::hooks
