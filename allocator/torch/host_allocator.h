// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include <c10/core/Allocator.h>

#include "allocator/core.h"

namespace cinch::allocator {

/// CPU blocks of at least this size come from our allocator. Smaller ones stay with the replaced
/// allocator, since the C library serves them well. Bytes.
inline constexpr std::size_t smallest_host_block = 1 * mebibyte;

/// Replaces PyTorch's CPU allocator by the caching allocator over host memory.
///
/// The C library suits activations badly: freed blocks of some 16 MB stay in a heap that fragments,
/// larger ones are mapped and faulted in anew each time. Pinned and shared memory have allocators
/// of their own in PyTorch and are not touched. Data pointers are their own context and start on a
/// page. `hold_over_forks` is called for each lock that a forking thread has to hold, in the order
/// in which they are taken. Does nothing when the program has brought an allocator without a plain
/// deleter.
/// @pre called once, from the thread that imports torch
void install_host_allocator(void (*hold_over_forks)(std::mutex&));

/// The core behind PyTorch's CPU allocator; null when not installed.
Core* host_core() noexcept;

/// A block from where PyTorch's large CPU blocks come, for memory of our own: the profiler does not
/// count it, and is_host_deleter() is false. Null data when the allocator is not installed, when
/// `bytes` are fewer than smallest_host_block, or when there is no memory.
c10::DataPtr take_host_block(std::size_t bytes) noexcept;

/// From now on fills what this thread allocates with zeros, or no longer. For operators that leave
/// parts of a block unwritten: what lay there before could not be compressed. Has no effect where
/// host_core() is null.
void fill_host_blocks_with_zeros(bool wanted) noexcept;

/// Whether `deleter` is that of PyTorch's ordinary CPU allocator: ours, or the one it replaced.
bool is_host_deleter(c10::DeleterFnPtr deleter) noexcept;

}  // namespace cinch::allocator
