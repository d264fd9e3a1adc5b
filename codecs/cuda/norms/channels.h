// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/arithmetic/norms.h"
#include "codecs/cuda/codec.h"

/// Batch norm of statistics that are known, and what networks do to its result before it is saved,
/// in one pass: the sum with a residual branch, and a ReLU.
namespace cinch::codecs::cuda {

/// What elements are normalized by. Pointers are to device memory.
struct ChannelNorm {
  ChannelOrder order;           ///< with one table
  const float* mean = nullptr;  ///< of each channel, as the other arrays
  const float* rstd = nullptr;
  const float* weight = nullptr;  ///< null: 1
  const float* bias = nullptr;    ///< null: 0
  const void* added = nullptr;    ///< a tensor that lies as `x`; null: none
  bool relu = false;
  /// Of a ReLU: what is kept, as codec `sign` writes it. Null: what is greater than 0, or NaN.
  const std::byte* signs = nullptr;
};

/// Enqueues y = relu(fma(weight * (x - mean), rstd, bias) + added), without the last two where
/// there is none: each operation in float32, and each of the three steps rounded to `type`, as
/// PyTorch's kernels do one after the other.
/// @param type Of x, y and `added`: float32, bfloat16 or float16
/// @pre x, y and `added` are device memory, aligned to their elements; they may be the same
/// @return false when a kernel could not be launched, or for 2^30 channels or elements of one or
/// more
bool normalize_channels(ElementType type, const ChannelNorm& norm, const void* x, void* y,
                        Stream stream) noexcept;

}  // namespace cinch::codecs::cuda
