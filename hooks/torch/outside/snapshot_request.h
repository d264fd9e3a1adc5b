// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// If CINCH_SNAPSHOT names a file, has PyTorch write its snapshot of CUDA's allocator there when
/// memory runs out and when the program ends, as torch.cuda.memory._dump_snapshot does (the pickle
/// format that torch's memory_viz opens). The history begins when the program's optimizer is first
/// used. "%p" stands for the process's number. Does nothing if the variable is not set.
///
/// Like module names, this needs a scope of torch.optim's: programs without one leave no snapshot.
/// @pre called once, when torch is loaded
void arrange_snapshot();

}  // namespace cinch::hooks
