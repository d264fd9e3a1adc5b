// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "agent/telemetry/report.h"

namespace cinch::hooks {

/// Whether a report will be left and is to hold each entry, with its module, and what happened over
/// time. CINCH_REPORT_DETAILS=0 asks for the rest only, which is what a summary shows.
bool details_wanted() noexcept;

/// The report as of now. @pre the stash was started
telemetry::Report current_report();

/// Leaves the current report, as leave_report does. When the process's peak memory still grows
/// while it ends, the report is left again with the last peak. @pre the stash was started
void leave_last_report();

/// A report that only says why Cinch is not active.
telemetry::Report inactive_report(std::string reason, std::string policy);

/// Writes `report` to the path in CINCH_REPORT ("%p" stands for the process's number). Prints
/// failures to stderr. Does nothing if CINCH_REPORT is not set.
void leave_report(const telemetry::Report& report);

}  // namespace cinch::hooks
