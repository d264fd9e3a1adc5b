// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <shared_mutex>

namespace cinch::hooks {

/// A fork may happen while other threads hold our locks. The child has none of those threads, so
/// the locks would stay taken. Every lock of ours is therefore registered here, and the forking
/// thread holds all of them while it forks.

/// Installs the handlers; `in_child` runs in a forked child before its program goes on.
/// @pre called once, after the last register_fork_lock
void install_fork_handlers(void (*in_child)());

/// Registers `lock` to be held during forks. A forking thread takes locks in their order of
/// registration, so a thread that holds one of them may take only later ones.
void register_fork_lock(std::mutex& lock);

/// Hold this shared while holding an entry's own lock; a forking thread holds it exclusively, so no
/// entry's lock is held during a fork.
std::shared_mutex& entry_work();

/// The number of forks between the process in which Cinch started and this one. An object that was
/// made at a smaller number belongs to a parent process.
unsigned forks_before() noexcept;

/// True in a process that was forked after Cinch had started: threads of a parallel region may not
/// exist here.
bool is_forked_child() noexcept;

}  // namespace cinch::hooks
