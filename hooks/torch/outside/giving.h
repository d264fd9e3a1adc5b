// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// Gives back unused CUDA memory of this process when `cinch agent` asks for it because another
/// process has run out. Uses a thread of Cinch's, since a program that waits for its user reaches
/// no step boundary. The thread sleeps in the kernel until a request comes, blocks all signals and
/// needs neither the interpreter nor PyTorch. It exists only where Cinch's CUDA allocator is
/// installed. Nothing here throws.

/// Starts the thread. @pre the control segment was made; no other thread calls this
void begin_giving() noexcept;

/// Ends the thread once it has finished a request under way. @pre the control segment still exists
void end_giving() noexcept;

/// In a forked child, which has no such thread: resets the state.
void begin_giving_in_child() noexcept;

}  // namespace cinch::hooks
