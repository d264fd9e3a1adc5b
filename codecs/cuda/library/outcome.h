// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/cuda/codec.h"

/// Operations for a host that does not wait: for what it has to say, and for a Result.
namespace cinch::codecs::cuda {

/// Enqueues writing `bytes` of host memory to device memory, as arguments of kernel launches.
/// @return false when a kernel could not be launched
bool write(void* to, const void* from, std::size_t bytes, Stream stream) noexcept;

/// Enqueues a copy of `bytes` bytes from `source` over the decoded elements at `target`. The copy
/// is skipped if, when the kernel runs, `result` says that the source was representable in fewer
/// than `below` bytes.
/// @pre `source` and `target` are device memory, aligned to 16 bytes
/// @return false when the kernel could not be launched
bool keep_source(const Result* result, std::uint64_t below, const void* source, void* target,
                 std::size_t bytes, Stream stream) noexcept;

}  // namespace cinch::codecs::cuda
