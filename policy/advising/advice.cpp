// SPDX-License-Identifier: Apache-2.0
#include "policy/advising/advice.h"

#include <algorithm>
#include <limits>

namespace cinch::policy {
namespace {

double share(double error, double noise) noexcept {
  if (error == 0) return 0;
  return noise > 0 ? error / noise : std::numeric_limits<double>::infinity();
}

}  // namespace

double Prospect::share_of_noise() const noexcept {
  return std::max(share(error, noise), share(error_by_weight, noise_by_weight));
}

std::optional<std::size_t> advised_policy(std::span<const Prospect> prospects,
                                          double most) noexcept {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < prospects.size(); ++i) {
    const Prospect& each = prospects[i];
    if (!each.is_traced || !(each.share_of_noise() <= most)) continue;
    if (!best || each.ratio() > prospects[*best].ratio()) best = i;
  }
  return best;
}

double relative_time(double seconds, double in_cinch) noexcept {
  const double plain = seconds - in_cinch;
  return in_cinch >= 0 && plain > 0 ? seconds / plain : 0;
}

}  // namespace cinch::policy
