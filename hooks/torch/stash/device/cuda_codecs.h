// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Stream.h>

#include "codecs/cuda/library.h"

namespace cinch::hooks {

/// The CUDA engine of the codecs, loaded at the first call from libcinch_cuda.so beside this
/// library. Null, after one line on stderr, when it can't be loaded, and silently when this build
/// has none. Thread-safe.
const codecs::cuda::Library* cuda_codecs() noexcept;

/// What CUDA calls `stream`, or null for the default stream.
codecs::cuda::Stream native(const c10::Stream& stream);

}  // namespace cinch::hooks
