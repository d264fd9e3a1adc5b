// SPDX-License-Identifier: Apache-2.0
#include "policy/deciding/offload.h"

#include <algorithm>

#include "policy/match.h"

namespace cinch::policy {
namespace {

Decision::Offload offload_of(const Settings& settings, const Use& use, bool chosen) noexcept {
  using enum Decision::Offload;
  const auto rule = first_match(settings.rules, use);
  if (rule != settings.rules.end() && rule->offload) return *rule->offload ? always : never;
  if (settings.offload.enabled || chosen) return always;
  return settings.offload.rescue ? under_pressure : never;
}

}  // namespace

Decision::Offload offload_of(const Settings& settings, std::span<const Use> uses,
                             bool chosen) noexcept {
  Decision::Offload found = Decision::Offload::never;
  for (const Use& use : uses) {
    const Decision::Offload wanted = offload_of(settings, use, chosen);
    if (wanted == Decision::Offload::never) return wanted;
    found = std::max(found, wanted);
  }
  return found;
}

}  // namespace cinch::policy
