// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace cinch::hooks {

/// Asks `cinch agent`, if one of this user is alive, to have other processes on the CUDA device
/// give back memory that they do not use, and waits for that, at most as long as the policy's
/// allocator.ask_others_seconds says. Returns the bytes that they gave back, 0 where nobody asks or
/// gives. Called in whatever thread asked for memory, locks of the stash's may be held; needs
/// neither the interpreter nor memory of the device. Throws nothing.
std::size_t ask_others_for(int device, std::size_t bytes) noexcept;

/// In a forked child: nobody is asking.
void begin_asking_in_child() noexcept;

}  // namespace cinch::hooks
