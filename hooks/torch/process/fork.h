// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <shared_mutex>

namespace cinch::hooks {

/// Fork may come while other threads hold our locks; the child has none of those threads, so the
/// locks would stay taken. Every lock of ours is therefore registered here, and held by the forking
/// thread itself while it forks.

/// Installs the handlers; `in_child` runs in a forked child before its program goes on.
/// @pre called once, after the last register_fork_lock
void install_fork_handlers(void (*in_child)());

/// Holds `lock` across forks. Locks are taken in the order of registration: a thread that holds one
/// may take only later ones.
void register_fork_lock(std::mutex& lock);

/// Held shared while an entry's own lock is held, so that no fork sees one taken.
std::shared_mutex& entry_work();

/// How many forks lie between the process in which Cinch started and this one: what was made when
/// they were fewer is a parent's.
unsigned forks_before() noexcept;

/// True in a process that was forked after Cinch had started: threads of a parallel region may not
/// exist here.
bool is_forked_child() noexcept;

}  // namespace cinch::hooks
