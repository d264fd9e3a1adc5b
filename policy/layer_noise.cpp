// SPDX-License-Identifier: Apache-2.0
#include "policy/layer_noise.h"

#include <algorithm>
#include <cmath>

namespace cinch::policy {
namespace {

// How far below the guard's limits 1 bit has to stay: a look that finds it above them would double
// the bits.
constexpr double guards_margin = 0.8;

double levels_squared(int bits) noexcept {
  const double levels = static_cast<double>((1 << bits) - 1);
  return levels * levels;
}

/// Of a layer held in groups of 2 bits, until it is measured (assumed, not measured:
/// docs/policies.md).
Noise prior_noise(LayerKind kind) noexcept {
  switch (kind) {
    case LayerKind::convolution:
      return {0.6, 0};
    case LayerKind::linear:
      return {0.3, 0};
    case LayerKind::batch_norm:
      return {0.5, 0.05};
    case LayerKind::layer_norm:
      return {0.2, 0.2};
    case LayerKind::elementwise:
      return {0, 0.2};
    case LayerKind::attention:
    case LayerKind::matmul:
      return {0, 2};
    case LayerKind::other:
      return {4, 4};
  }
  return {4, 4};
}
constexpr double prior_division = 0.3;

void mix(Noise& noise, const Look::Trial& trial, double factor, double weight) {
  if (trial.own >= 0) noise.own += weight * (factor * trial.own - noise.own);
  if (!(trial.passed >= 0)) return;
  const double worst = std::max(trial.passed_worst, trial.passed);
  const double both = share_by_size * trial.passed + (1 - share_by_size) * worst;
  noise.passed += weight * (factor * both - noise.passed);
}

bool counts(const Look::Trial& trial) {
  return trial.was_tried() && std::isfinite(trial.own) && std::isfinite(trial.passed);
}

}  // namespace

bool is_single(const Choice& choice) {
  return choice.action == Choice::Action::encode && choice.spec.name == "group_quant" &&
         choice.spec.bits == 1;
}

void take_number(const Numbers& numbers, const char* name, double& to) {
  const auto known = numbers.find(name);
  if (known != numbers.end() && std::isfinite(known->second) && known->second >= 0) {
    to = known->second;
  }
}

LayerNoise::LayerNoise(LayerKind kind) noexcept
    : group_(prior_noise(kind)),
      division_{prior_division * group_.own, prior_division * group_.passed} {}

bool LayerNoise::follow(const Look& look, const Layer& layer) {
  bool tried = false;
  const double weight = tries_ == 0 ? 1 : news;
  for (std::uint32_t i = 0; i < std::min(look.trials.size(), layer.menu.size()); ++i) {
    const Look::Trial& trial = look.trials[i];
    if (!counts(trial)) continue;
    const auto& spec = layer.menu[i].spec;
    if (is_single(layer.menu[i])) {
      const double first = single_worst_ < 0 ? 1 : weight;
      mix(single_, trial, 1, first);
      const double worst = std::max({trial.own, trial.passed, trial.passed_worst});
      single_worst_ += first * (worst - single_worst_);
      continue;
    }
    const double factor = levels_squared(spec.bits) / levels_squared(reference_bits);
    mix(spec.name == "division" ? division_ : group_, trial, factor, weight);
    tried = true;
  }
  if (tried) ++tries_;
  return tried;
}

double LayerNoise::of(const Choice& choice, const Noise& hit) const noexcept {
  if (choice.action != Choice::Action::encode) return 0;
  if (is_single(choice)) return hit.own * single_.own + hit.passed * single_.passed;
  const Noise& reference = choice.spec.name == "division" ? division_ : group_;
  return (hit.own * reference.own + hit.passed * reference.passed) *
         levels_squared(reference_bits) / levels_squared(choice.spec.bits);
}

bool LayerNoise::takes_single(const GuardSettings& guard) const noexcept {
  if (single_worst_ < 0) return false;
  return guard.every_steps == 0 ||
         std::sqrt(single_worst_) <= guards_margin * guard.max_gradient_error;
}

Numbers LayerNoise::numbers() const {
  if (tries_ == 0) return {};
  return {{"group_own", group_.own},       {"group_passed", group_.passed},
          {"division_own", division_.own}, {"division_passed", division_.passed},
          {"single_own", single_.own},     {"single_passed", single_.passed},
          {"single_worst", single_worst_}, {"tries", tries_}};
}

void LayerNoise::recall(const Numbers& numbers) {
  take_number(numbers, "group_own", group_.own);
  take_number(numbers, "group_passed", group_.passed);
  take_number(numbers, "division_own", division_.own);
  take_number(numbers, "division_passed", division_.passed);
  take_number(numbers, "single_own", single_.own);
  take_number(numbers, "single_passed", single_.passed);
  take_number(numbers, "single_worst", single_worst_);
  double tries = 0;
  if (numbers.contains("group_own")) take_number(numbers, "tries", tries);
  tries_ = static_cast<std::uint32_t>(std::clamp(tries, 0.0, 1e6));
}

}  // namespace cinch::policy
