// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/codec.h"

namespace cinch::codecs::cuda {

/// Loads the kernels that encoding and decoding `what` launches onto the current device, those of
/// outcome.h, and that of without_bias.h for what.type. Lets each use all the shared memory that a
/// block may have, if it needs more than every kernel has. CUDA otherwise loads a kernel when it is
/// first launched, which takes device memory just when there is little, and may wait for the
/// device. Kernels for elements that are not aligned to 16 bytes are not loaded, except those that
/// may need so much shared memory. Ends no graph captures.
/// @return false when the device could not load them; they may be loaded at a later call
/// @pre codec.accepts(what)
bool load(const DeviceCodec& codec, const Description& what) noexcept;

}  // namespace cinch::codecs::cuda
