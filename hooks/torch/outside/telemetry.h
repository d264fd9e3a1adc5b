// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "agent/telemetry/layout.h"
#include "hooks/torch/stash/figures/listeners.h"

namespace cinch::hooks {

/// This process's telemetry segment (agent/telemetry/layout.h). It is made at the first boundary,
/// so that only processes that train have one; a forked child makes its own. A process that can't
/// make one silently goes on without. Nothing here throws.

/// Switches telemetry on; `policy` is the policy's name. @pre called once, before the stash saves
void begin_telemetry(std::string policy);

/// Whether telemetry is wanted and possible.
bool telemetry_wanted() noexcept;

/// Publishes `live`, which has the stash's figures, with all others; does nothing while another
/// thread publishes. Takes no lock of the stash's, and those of the allocators at most once an
/// optimizer step.
void publish_boundary(telemetry::LiveFigures live, const Statistics& statistics) noexcept;

/// Publishes an event for people to see. Dropped while there is no segment. Takes no lock.
void publish_event(telemetry::EventKind kind, const char* text) noexcept;

/// Publishes that the process needs memory of a CUDA device, even before its first boundary.
/// @return false if there is no segment @pre one thread at a time
bool telemetry_want(const telemetry::Want& want, int device) noexcept;

/// Publishes the name of the policy that is in force from now on. @pre one thread at a time
void telemetry_policy(const std::string& name);

/// In a forked child: drops the parent's segments.
void begin_telemetry_in_child() noexcept;

/// When the process ends: removes its segments.
void end_telemetry() noexcept;

}  // namespace cinch::hooks
