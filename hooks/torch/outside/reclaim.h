// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// Lets the allocators that are installed ask the stash for memory before the program is told that
/// there is none: it encodes early.
/// @pre the stash was started; called once
void let_allocators_ask_the_stash();

}  // namespace cinch::hooks
