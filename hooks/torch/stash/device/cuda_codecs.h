// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Stream.h>

#include "codecs/cuda/library/library.h"

namespace cinch::hooks {

/// The CUDA codecs, loaded at the first call from libcinch_cuda.so in this library's folder. Null,
/// after one line on stderr, when it can't be loaded; null, silently, when the file is missing.
/// Thread-safe.
const codecs::cuda::Library* cuda_codecs() noexcept;

/// CUDA's handle of `stream`; null for the default stream.
codecs::cuda::Stream native(const c10::Stream& stream);

}  // namespace cinch::hooks
