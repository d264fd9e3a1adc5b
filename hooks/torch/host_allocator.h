// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Allocator.h>

namespace cinch::hooks {

/// Puts a pool of reused buffers behind PyTorch's CPU allocator, for blocks of 1 MiB and more;
/// smaller ones go where they went before.
///
/// The C library's allocator suits activations badly: freed blocks of some 16 MB stay in a heap
/// that fragments (the digits example grows by twice what it ever uses), larger ones are mapped and
/// faulted in anew each time. The pool holds little more than was recently in use at once.
/// @pre called once, from the thread that imports torch
void install_host_allocator();

/// Starts a period of use (BufferPool::new_period). Nothing when not installed.
void host_allocator_new_period();

/// Whether memory with this deleter came from PyTorch's ordinary CPU allocator, ours or the one
/// before.
bool is_host_deleter(c10::DeleterFnPtr deleter) noexcept;

}  // namespace cinch::hooks
