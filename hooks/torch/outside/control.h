// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::telemetry {
class Control;
}

namespace cinch::hooks {

/// Serves the requests of `cinch ctl` and `cinch agent` (agent/telemetry/control.h). They arrive in
/// a control segment beside the telemetry segment, which is read when an optimizer step or a
/// backward begins. A process that can't make one silently goes on without. Nothing here throws.

/// Makes the segment. @pre there is none, and the telemetry segment was made
void begin_control() noexcept;

/// The segment; null while there is none. Never destroyed.
telemetry::Control* own_control() noexcept;

/// Carries out the pending request, if there is one; else costs one load.
/// @pre no lock of Cinch's is held
/// @param python_may_run Whether the caller is in a scope of the program's own, where any Python
///   may run. Requests that need Python wait for such a call.
void serve_control(bool python_may_run) noexcept;

/// In a forked child: drops the parent's segment.
void begin_control_in_child() noexcept;

/// When the process ends: removes its segment.
void end_control() noexcept;

}  // namespace cinch::hooks
