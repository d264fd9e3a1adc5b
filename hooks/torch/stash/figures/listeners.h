// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "agent/telemetry/layout.h"
#include "hooks/torch/stash/figures/statistics.h"
#include "policy/adapting/look.h"

namespace cinch::hooks {

/// Callbacks from the stash to code that includes it (telemetry, backward's node callbacks).
/// `boundary` is null, and the others do nothing, until set.
struct Listeners {
  /// A backward begins. Of the figures those of the stash are set. No lock is held.
  void (*boundary)(telemetry::LiveFigures, const Statistics&) noexcept = nullptr;
  /// A dry run, or an appraisal of the policy, has finished. No lock is held.
  void (*all_measured)() = [] {};
  /// In an appraisal, a growth begins; whether its backward is compared with an exact one. No lock
  /// is held.
  void (*compares)(bool on) noexcept = [](bool) noexcept {};
  /// A message for the user. This and the callbacks below may be called under locks of the stash.
  void (*event)(telemetry::EventKind, const char* text) noexcept = [](telemetry::EventKind,
                                                                      const char*) noexcept {};
  /// Another policy is in force.
  void (*policy)(const std::string& name) = [](const std::string&) {};
  /// A step begins, and an adaptive policy wants these measurements in it.
  void (*wants)(const policy::Wants&) noexcept = [](const policy::Wants&) noexcept {};
  /// Whether the guard watches any entry.
  void (*watches)(bool any) noexcept = [](bool) noexcept {};
};

/// The process's callbacks. Set them before the stash saves anything.
Listeners& listeners() noexcept;

/// Formats as printf does and calls listeners().event.
void tell(telemetry::EventKind kind, const char* format, ...) noexcept
    __attribute__((format(printf, 2, 3)));

}  // namespace cinch::hooks
