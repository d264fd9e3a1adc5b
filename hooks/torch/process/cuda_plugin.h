// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "allocator/torch/cuda/plugin.h"

namespace cinch::hooks {

/// Loads the library of the CUDA allocator from beside this one and puts that allocator in
/// PyTorch's place, when the torch in this process has CUDA; otherwise, and when the library is not
/// there because this build has no CUDA, nothing happens. When it can't be installed though it
/// should, one line on stderr says why, and PyTorch's own stays. Throws nothing.
/// @pre called once, before the fork handlers are installed and before CUDA is used
void install_cuda_allocator();

/// The plug-in; null when it is not installed.
const allocator::CudaPlugin* cuda_plugin() noexcept;

}  // namespace cinch::hooks
