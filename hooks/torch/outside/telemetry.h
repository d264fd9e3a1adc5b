// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "agent/telemetry/layout.h"
#include "hooks/torch/stash/listeners.h"

namespace cinch::hooks {

/// This process's telemetry segment (agent/telemetry/layout.h). It is made at the first boundary,
/// so that only processes that train have one; a forked child makes its own. Where none can be
/// made, the process goes on without, silently. Nothing here throws.

/// Telemetry is wanted. @pre called once, before the stash saves
void begin_telemetry(std::string policy);

/// Whether telemetry is wanted and possible.
bool telemetry_wanted() noexcept;

/// Publishes what the stash tells. A thread that comes while another publishes leaves it be. Takes
/// no lock of the stash's; at most once an optimizer step, those of the allocators.
void publish_boundary(const Boundary& boundary, const Statistics& statistics) noexcept;

/// Something that people shall see. Dropped while there is no segment. Takes no lock.
void publish_event(telemetry::EventKind kind, const char* text) noexcept;

/// Says that the process needs memory of a CUDA device, before its first boundary too. One thread
/// at a time. False where there is no segment.
bool telemetry_want(const telemetry::Want& want, int device) noexcept;

/// Another policy is in force from now on. One thread at a time.
void telemetry_policy(const std::string& name);

/// In a forked child: the parent's segment is not its own.
void begin_telemetry_in_child() noexcept;

/// The process ends: its segment goes.
void end_telemetry() noexcept;

}  // namespace cinch::hooks
