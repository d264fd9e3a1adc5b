// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/process/parallel.h"

#include <algorithm>

#include <ATen/Parallel.h>

#include "hooks/torch/process/fork.h"

namespace cinch::hooks {

void torch_parallel_for(std::int64_t n, std::int64_t grain, codecs::ParallelForBody body,
                        void* argument) {
  if (is_forked_child()) {
    // OpenMP's threads did not survive the fork; a region would wait for them forever.
    codecs::serial_for(n, grain, body, argument);
    return;
  }
  const std::int64_t blocks = (n + grain - 1) / grain;
  at::parallel_for(0, blocks, 1, [=](std::int64_t begin, std::int64_t end) {
    body(argument, begin * grain, std::min(end * grain, n));
  });
}

}  // namespace cinch::hooks
