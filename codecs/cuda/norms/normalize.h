// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "codecs/cuda/codec.h"

/// The second half of layer norm or RMS norm, of statistics that are known, in one pass.
namespace cinch::codecs::cuda {

/// What rows of elements are normalized by: arrays of float32 in device memory.
struct RowNorm {
  std::int64_t rows = 0;
  std::int64_t row = 0;           ///< elements of a row
  const float* mean = nullptr;    ///< of each row; null: 0, as for RMS norm
  const float* rstd = nullptr;    ///< of each row
  const float* weight = nullptr;  ///< of each column; null: 1
  const float* bias = nullptr;    ///< of each column; null: 0
};

/// Enqueues y = fma((x - mean) * rstd, weight, bias) for contiguous rows: each operation in
/// float32, as PyTorch's norms round, and then rounded to nearest.
/// @param from, to The elements' types: float32, bfloat16 or float16
/// @pre x and y are device memory, aligned to their elements; they may be the same if the types are
/// @return false when a kernel could not be launched, or for rows of 2^29 elements or more
bool normalize_rows(ElementType from, ElementType to, const RowNorm& norm, const void* x, void* y,
                    Stream stream) noexcept;

}  // namespace cinch::codecs::cuda
