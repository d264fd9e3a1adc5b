// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/cuda/codec.h"

/// What a ReLU is to its operand where its result's signs are held.
namespace cinch::codecs::cuda {

/// Enqueues y = x where bit k of `bits` is 1 for element k, and 0 elsewhere.
/// @param size Bytes of an element: 2 or 4
/// @param bits As codec `sign` writes them
/// @pre x, y and bits are device memory, x and y aligned to their elements; x and y may be the same
/// @return false when the kernel could not be launched
bool keep_where(std::size_t size, std::int64_t elements, const std::byte* bits, const void* x,
                void* y, Stream stream) noexcept;

}  // namespace cinch::codecs::cuda
