// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/cuda/codec.h"

/// What lets a host that waits for no Result still go by it: the device does.
namespace cinch::codecs::cuda {

/// Enqueues writing `bytes` of the host's, which go with the launch, to device memory.
/// @return false when a kernel could not be launched
bool write(void* to, const void* from, std::size_t bytes, Stream stream) noexcept;

/// Enqueues copying `bytes` from `source` to `target`, where what was decoded lies, unless `result`
/// says by then that the source was representable in fewer bytes than `below`. All of them device
/// memory; both pointers aligned to 16 bytes.
/// @return false when the kernel could not be launched
bool keep_source(const Result* result, std::uint64_t below, const void* source, void* target,
                 std::size_t bytes, Stream stream) noexcept;

}  // namespace cinch::codecs::cuda
