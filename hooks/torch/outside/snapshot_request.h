// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// Where CINCH_SNAPSHOT names a file, has PyTorch write its snapshot of CUDA's allocator there (in
/// the pickle format that torch's memory_viz opens) when memory runs out and when the program ends,
/// as torch.cuda.memory._dump_snapshot does, with the history since the program's optimizer was
/// first used. "%p" stands for the process's number. Nothing where the variable is not set.
///
/// Like module names, this happens in a scope of torch.optim's: programs without one leave none.
/// @pre called once, when torch is loaded
void arrange_snapshot();

}  // namespace cinch::hooks
