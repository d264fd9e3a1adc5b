// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/gradient_probe.h"

namespace cinch::hooks {
namespace {

thread_local GradientProbe* probe = nullptr;

}  // namespace

ProbeScope::ProbeScope(GradientProbe& now) noexcept {
  probe = &now;
}

ProbeScope::~ProbeScope() {
  probe = nullptr;
}

GradientProbe* current_probe() noexcept {
  return probe;
}

}  // namespace cinch::hooks
