// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/telemetry/reader.h"

namespace cinch::daemon {

/// Numbers the runs that are alike in job and rank: two processes of one program get slots 0 and 1.
/// Free slots are used again, so that labels do not grow with the number of processes.
class Slots {
 public:
  /// Returns the slot of each of `runs`. Slots of runs that are not among them become free.
  std::vector<int> assign(const std::vector<telemetry::Run>& runs);

 private:
  struct Held {
    telemetry::ProcessKey process;
    std::string alike;
    int slot = 0;
  };
  std::vector<Held> held_;
};

/// The job's name for people and labels: torchrun's, else the program's file name.
std::string job_label(const telemetry::Run& run);

/// The living runs in Prometheus's text format, version 0.0.4. Metrics have help and type, in base
/// units; labels are job, rank, slot, device and codec, and for cinch_run_info policy and torch.
/// @param slots Result of Slots::assign(runs)
std::string prometheus_text(const std::vector<telemetry::Run>& runs, const std::vector<int>& slots);

}  // namespace cinch::daemon
