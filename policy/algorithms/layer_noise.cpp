// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/layer_noise.h"

#include <algorithm>
#include <cmath>

#include "policy/adapting/mixed_precision.h"

namespace cinch::policy {
namespace {

/// The noise of a layer in groups of 2 bits, assumed until it is measured
/// (docs/adaptive-policies.md).
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

/// Noise under `spec` / noise of stochastic rounding at the reference bits.
double relative_noise(const codecs::CodecSpec& spec) noexcept {
  const double rounding = spec.subtractive_dither ? 0.5 : 1;
  return rounding * levels_squared(LayerNoise::reference_bits) / levels_squared(spec.bits);
}

codecs::CodecTraits traits_of(const Choice& choice) {
  if (choice.action != Choice::Action::encode) return {};
  return codecs::codec_traits(choice.spec.name).value_or(codecs::CodecTraits{});
}

}  // namespace

bool is_single(const Choice& choice) {
  return traits_of(choice).shares_ranges && choice.spec.bits == 1;
}

bool keeps_means(const Choice& choice) {
  return traits_of(choice).keeps_means;
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
    const Choice& choice = layer.menu[i];
    if (is_single(choice)) {
      single_.follow(trial);
      continue;
    }
    mix(keeps_means(choice) ? division_ : group_, trial, 1 / relative_noise(choice.spec), weight);
    tried = true;
  }
  if (tried) ++tries_;
  return tried;
}

double LayerNoise::of(const Choice& choice, const Noise& hit) const noexcept {
  if (choice.action != Choice::Action::encode) return 0;
  if (is_single(choice)) return single_.of(hit);
  const Noise& reference = keeps_means(choice) ? division_ : group_;
  return (hit.own * reference.own + hit.passed * reference.passed) * relative_noise(choice.spec);
}

Numbers LayerNoise::numbers() const {
  if (tries_ == 0) return {};
  Numbers numbers = {{"group_own", group_.own},
                     {"group_passed", group_.passed},
                     {"division_own", division_.own},
                     {"division_passed", division_.passed},
                     {"tries", tries_}};
  single_.add_numbers("single_", numbers);
  return numbers;
}

void LayerNoise::recall(const Numbers& numbers) {
  take_number(numbers, "group_own", group_.own);
  take_number(numbers, "group_passed", group_.passed);
  take_number(numbers, "division_own", division_.own);
  take_number(numbers, "division_passed", division_.passed);
  single_.recall("single_", numbers);
  double tries = 0;
  if (numbers.contains("group_own")) take_number(numbers, "tries", tries);
  tries_ = static_cast<std::uint32_t>(std::clamp(tries, 0.0, 1e6));
}

}  // namespace cinch::policy
