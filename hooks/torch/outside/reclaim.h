// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// Registers the stash with the installed allocators. An allocator that runs out of memory asks the
/// stash to free some, as by encoding early, before the program gets an error.
/// @pre the stash was started; called once
void let_allocators_ask_the_stash();

}  // namespace cinch::hooks
