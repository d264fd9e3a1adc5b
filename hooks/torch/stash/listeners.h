// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "agent/telemetry/layout.h"
#include "hooks/torch/stash/statistics.h"
#include "policy/look.h"

namespace cinch::hooks {

/// What the stash tells when it stops growing: a backward begins. Bytes.
struct Boundary {
  std::uint64_t raw = 0;
  std::uint64_t stored = 0;
  std::uint64_t raw_at_peak = 0;
  std::uint64_t stored_at_peak = 0;
  std::uint64_t held_elsewhere_at_peak = 0;
  std::uint64_t offloaded = 0;
  std::uint64_t pinned = 0;
  std::uint64_t pinned_reserved = 0;
  std::uint64_t decisions = 0;  ///< see LiveFigures
};

/// Whom the stash tells what it does and what it wants to know: rooms that look into the stash
/// themselves, so that it can't name them. Nobody listens at first.
struct Listeners {
  /// A backward begins. No lock is held. Null where nobody wants to know.
  void (*boundary)(const Boundary&, const Statistics&) noexcept = nullptr;
  /// A dry run knows all that it was to find out. No lock is held.
  void (*dry_run_done)() = [] {};
  /// Something that people shall see. This and what follows may come under locks of the stash's.
  void (*event)(telemetry::EventKind, const char* text) noexcept = [](telemetry::EventKind,
                                                                      const char*) noexcept {};
  /// Another policy is in force.
  void (*policy)(const std::string& name) = [](const std::string&) {};
  /// What the step that begins shall find out for an adaptive policy.
  void (*wants)(const policy::Wants&) noexcept = [](const policy::Wants&) noexcept {};
  /// Whether the guard watches any entry.
  void (*watches)(bool any) noexcept = [](bool) noexcept {};
};

/// The process's. Set before the stash saves.
Listeners& listeners() noexcept;

/// listeners().event of what printf makes of `format`.
void tell(telemetry::EventKind kind, const char* format, ...) noexcept
    __attribute__((format(printf, 2, 3)));

}  // namespace cinch::hooks
