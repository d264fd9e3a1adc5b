// SPDX-License-Identifier: Apache-2.0
#include "policy/deciding/rescue.h"

#include <utility>
#include <variant>

#include "policy/algorithms/algorithm.h"

namespace cinch::policy {

std::optional<Settings> harder(const Settings& settings) {
  const bool allowed = settings.rescue.enabled && settings.rescue.harder;
  if (!allowed || keeps_all_exact(settings)) return std::nullopt;
  auto loaded = load_settings("division");
  auto* const preset = std::get_if<Settings>(&loaded);
  if (preset == nullptr) return std::nullopt;
  Settings least = settings;
  least.policy = preset->policy;
  least.division = preset->division;
  least.rules.insert(least.rules.end(), preset->rules.begin(), preset->rules.end());
  return least;
}

}  // namespace cinch::policy
