// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "allocator/torch/cuda/plugin.h"

namespace cinch::hooks {

/// Loads the library of the CUDA allocator from beside this one and installs that allocator in
/// place of PyTorch's. Does nothing if the torch in this process has no CUDA, or if the library is
/// missing because this build has no CUDA. If the installation fails, one line on stderr says why,
/// and PyTorch's allocator stays. Throws nothing.
/// @pre called once, before the fork handlers are installed and before CUDA is used
void install_cuda_allocator();

/// The plug-in; null when it is not installed.
const allocator::CudaPlugin* cuda_plugin() noexcept;

}  // namespace cinch::hooks
