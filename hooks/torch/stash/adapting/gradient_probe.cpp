// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/adapting/gradient_probe.h"

#include <algorithm>

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

c10::Storage GradientProbe::mixed_values(const Entry& entry) const {
  const auto found = std::ranges::find(mixed, &entry, &Mixed::entry);
  return found == mixed.end() ? c10::Storage() : found->values;
}

double GradientProbe::exact_share(const Entry& entry) const {
  const auto found = std::ranges::find(mixed, &entry, &Mixed::entry);
  return found == mixed.end() ? 1 : found->share;
}

GradientProbe* current_probe() noexcept {
  return probe;
}

}  // namespace cinch::hooks
