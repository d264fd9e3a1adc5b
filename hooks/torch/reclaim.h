// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// Lets the allocators that are installed ask the stash for memory before the program is told that
/// there is none: on the host it encodes early. On CUDA devices it holds nothing yet, and answers
/// 0.
/// @pre the stash was started; called once
void let_allocators_ask_the_stash();

}  // namespace cinch::hooks
