// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/codec.h"

namespace cinch::hooks {

/// codecs::ParallelFor on the threads that torch's own CPU operators use (torch.set_num_threads);
/// on the calling thread alone inside a parallel region and in forked children.
void torch_parallel_for(std::int64_t n, std::int64_t grain, codecs::ParallelForBody body,
                        void* argument);

}  // namespace cinch::hooks
