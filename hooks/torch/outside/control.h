// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cinch::telemetry {
class Control;
}

namespace cinch::hooks {

/// What `cinch ctl` and `cinch agent` ask of this process (agent/telemetry/control.h): a control
/// segment beside the telemetry one, looked into when an optimizer step or a backward begins. Where
/// none can be made, the process goes on without, silently. Nothing here throws.

/// Makes the segment. @pre there is none, and the telemetry segment was made
void begin_control() noexcept;

/// The segment; null while there is none. Never destroyed.
telemetry::Control* own_control() noexcept;

/// Carries out what is asked, if something is: one load where nothing is. No lock of Cinch's may be
/// held.
/// @param python_may_run Whether the caller is in a scope of the program's own, where any Python
///   may; what needs it waits for that.
void serve_control(bool python_may_run) noexcept;

/// In a forked child: the parent's segment is not its own.
void begin_control_in_child() noexcept;

/// The process ends: its segment goes.
void end_control() noexcept;

}  // namespace cinch::hooks
