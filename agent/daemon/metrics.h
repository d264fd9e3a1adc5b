// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/telemetry/reader.h"

namespace cinch::daemon {

/// Tells apart runs that are alike: two processes of one program get slots 0 and 1, and one that
/// comes later gets what has become free, so that labels do not grow with the number of processes.
class Slots {
 public:
  /// The slot of each of `runs`; those of runs that are not among them become free.
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

/// Prometheus's text format, version 0.0.4: the runs that live. `slots` as Slots::assign gave them.
/// Names have help and type; units are base units; labels are job, rank, slot, device and codec.
std::string prometheus_text(const std::vector<telemetry::Run>& runs, const std::vector<int>& slots);

}  // namespace cinch::daemon
