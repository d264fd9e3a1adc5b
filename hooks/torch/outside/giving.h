// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::hooks {

/// Giving back CUDA memory that nobody in this process uses, when `cinch agent` asks for it because
/// another process has run out: on a thread of Cinch's, since a program that waits for its user
/// reaches no step boundary. The thread sleeps in the kernel until it is asked, blocks all signals
/// and needs neither the interpreter nor PyTorch. Only processes where Cinch's CUDA allocator is
/// installed have it. Nothing here throws.

/// Begins to listen. @pre the control segment was made; this thread's is the only call
void begin_giving() noexcept;

/// Ends the thread, after what it is at. @pre before the control segment goes
void end_giving() noexcept;

/// In a forked child, which has no such thread.
void begin_giving_in_child() noexcept;

}  // namespace cinch::hooks
