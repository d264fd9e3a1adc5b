// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace cinch::hooks {

/// Asks this user's `cinch agent`, if one is alive, to have other processes on the CUDA device give
/// back unused memory. Waits for the answer, at most the policy's allocator.ask_others_seconds.
/// Returns the bytes that they gave back; 0 if the agent can't be asked or nobody gives any. Called
/// on the thread that asked for memory; locks of the stash may be held. Needs neither the
/// interpreter nor memory of the device. Throws nothing.
std::size_t ask_others_for(int device, std::size_t bytes) noexcept;

/// In a forked child: resets the state, since no thread is asking.
void begin_asking_in_child() noexcept;

}  // namespace cinch::hooks
