// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

namespace cinch::hooks {

struct EntryRow;

/// Names of the program's modules, for the report, without a change to the program.
///
/// The first time that backward reads an entry, the autograd node that reads it leads to a
/// parameter: one of its own (a convolution's weight), or else the nearest one before it (a ReLU's
/// input comes "after" a batch norm). When the optimizer steps next, in a thread of Python's, the
/// parameters are looked up once among the torch.nn.Module objects that the interpreter knows.
/// Nothing of the program's is called or changed, only dictionaries are read. Programs without
/// Python or without an optimizer of torch.optim have no names.

/// Notes where in the program the entry of `row` belongs, from the node that the calling thread
/// executes; does nothing outside of backward. @pre a saved tensor of it is being unpacked
void note_module(EntryRow& row) noexcept;

/// An optimizer's step begins in this thread: names what has been noted since. Costs one atomic
/// load when that is nothing.
void name_modules() noexcept;

/// For forks.
std::mutex& module_names_mutex() noexcept;

}  // namespace cinch::hooks
