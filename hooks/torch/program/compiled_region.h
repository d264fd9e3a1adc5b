// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "policy/entry.h"

namespace cinch::hooks {

struct OperatorFrame;

/// What the backwards of regions that torch.compile compiled read saved tensors for.
///
/// AOTAutograd makes a class CompiledFunction for each region. The class refers to its backward as
/// a torch.fx graph, or, out of AOTAutograd's cache, as that graph's text. When a class saves for
/// the first time a program in Python reads the graph, and policy/operators/backward_reads.h finds
/// the operands. The class is found in a variable of the Python frame that calls it.

/// What backward reads the tensor for that the autograd.Function in `frame` saves now, valid
/// forever; null if that is not known. May run Python, in another thread. @pre no lock of Cinch's
/// is held, and the tensor was counted (count_save)
const std::vector<policy::BackwardRead>* reads_of_saved(OperatorFrame& frame);

/// Whether torch.compile made the autograd.Function class of this name.
bool is_compiled_region(const char* name) noexcept;

/// Registers this file's lock with fork.h. @pre called once
void register_compiled_region_lock();

}  // namespace cinch::hooks
