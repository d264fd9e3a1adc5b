// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/measured_noise.h"

#include <algorithm>
#include <cmath>

namespace cinch::policy {

bool counts(const Look::Trial& trial) noexcept {
  return trial.was_tried() && std::isfinite(trial.own) && std::isfinite(trial.passed) &&
         std::isfinite(trial.passed_worst);
}

void mix(Noise& noise, const Look::Trial& trial, double factor, double weight) noexcept {
  if (trial.own >= 0) noise.own += weight * (factor * trial.own - noise.own);
  if (!(trial.passed >= 0)) return;
  const double worst = std::max(trial.passed_worst, trial.passed);
  const double both = share_by_size * trial.passed + (1 - share_by_size) * worst;
  noise.passed += weight * (factor * both - noise.passed);
}

void take_number(const Numbers& numbers, const std::string& name, double& to) {
  const auto known = numbers.find(name);
  if (known != numbers.end() && std::isfinite(known->second) && known->second >= 0) {
    to = known->second;
  }
}

void MeasuredNoise::follow(const Look::Trial& trial) noexcept {
  const double weight = was_tried() ? news : 1;
  mix(noise_, trial, 1, weight);
  worst_ += weight * (std::max({trial.own, trial.passed, trial.passed_worst}) - worst_);
}

bool MeasuredNoise::is_option(const GuardSettings& guard) const noexcept {
  // Share of the guard's limit that is safe: above the limit the guard would change the choice.
  constexpr double margin = 0.8;
  if (!was_tried()) return false;
  return guard.every_steps == 0 || std::sqrt(worst_) <= margin * guard.max_gradient_error;
}

void MeasuredNoise::add_numbers(const std::string& prefix, Numbers& numbers) const {
  if (!was_tried()) return;
  numbers[prefix + "own"] = noise_.own;
  numbers[prefix + "passed"] = noise_.passed;
  numbers[prefix + "worst"] = worst_;
}

void MeasuredNoise::recall(const std::string& prefix, const Numbers& numbers) {
  constexpr double missing = -1;
  MeasuredNoise found;
  found.noise_ = {missing, missing};
  take_number(numbers, prefix + "own", found.noise_.own);
  take_number(numbers, prefix + "passed", found.noise_.passed);
  take_number(numbers, prefix + "worst", found.worst_);
  if (found.noise_.own >= 0 && found.noise_.passed >= 0 && found.was_tried()) *this = found;
}

}  // namespace cinch::policy
