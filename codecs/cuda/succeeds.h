// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/runtime.h"

namespace cinch::codecs::cuda {

/// Makes `call`, a call of the CUDA runtime. @return whether it succeeded, by its own result
///
/// The runtime keeps the last error of each thread for the program's next cudaGetLastError. An
/// error of ours is taken back, so that the program does not take it for its own. An error that was
/// there before is the program's: it does not count as ours, and the program still finds an error.
/// After a failure of ours on top of it, it finds ours, since the runtime keeps only the last.
template <typename Call>
bool succeeds(const Call& call) noexcept {
  const bool programs_error = cudaPeekAtLastError() != cudaSuccess;
  if (call() == cudaSuccess) return true;
  if (!programs_error) cudaGetLastError();
  return false;
}

}  // namespace cinch::codecs::cuda
