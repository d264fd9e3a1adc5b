// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/budget_menu.h"

#include <algorithm>
#include <string>
#include <utility>

#include "policy/algorithms/layer_noise.h"
#include "policy/algorithms/lines.h"

namespace cinch::policy {
namespace {

/// Groups as the preset "default" has them, but for their bits. Without advice operators of no
/// known kind do without subtractive dithering, which does not keep zeros.
Choice grouped(const Layer& layer, int bits) {
  Choice choice;
  choice.action = Choice::Action::encode;
  choice.spec = {.name = "group_quant", .subtractive_dither = layer.kind != LayerKind::other};
  if (layer.advice && layer.advice->name == choice.spec.name) choice.spec = *layer.advice;
  choice.spec.bits = bits;
  return choice;
}

/// Of operators of no known kind `default`'s bits are the fewest.
int least_bits_of(const Layer& layer) {
  if (layer.kind == LayerKind::other && layer.advice) return layer.advice->bits;
  return least_measured_bits(layer.kind, layer.operand);
}

/// What nothing is known of yet.
Choice cautious(const Layer& layer) {
  return grouped(layer, std::max(4, least_bits_of(layer)));
}

/// The layer's values are computed from others, or held so where that can't be done after all.
Choice derived(const Layer& layer) {
  Choice choice = cautious(layer);
  choice.derived = true;
  return choice;
}

Choice divided(codecs::CodecSpec division, int bits) {
  Choice choice;
  choice.action = Choice::Action::encode;
  choice.spec = std::move(division);
  choice.spec.name = "division";
  choice.spec.bits = bits;
  return choice;
}

Choice offloaded(Choice choice) {
  choice.offload = true;
  return choice;
}

/// Seconds to encode and decode a byte on one core, from docs/benchmarks-codecs.md. Not measured
/// here, because decisions that depend on a clock would not be repeatable.
double seconds_per_byte(const Choice& choice) noexcept {
  if (choice.derived) return 0.10e-9;  // reads and writes as much as group_quant does
  if (choice.action == Choice::Action::keep) return 0;
  if (choice.action == Choice::Action::lossless) return 0.60e-9;
  return keeps_means(choice) ? 0.14e-9 : 0.10e-9;
}

/// Seconds to copy a byte to the host's memory and back, by a PCIe 3 bus's 12 GB/s each way.
/// Assumes that nothing is computed meanwhile, since the program's other work is not known.
constexpr double seconds_per_offloaded_byte = 2 / 12e9;

}  // namespace

std::vector<Choice> budget_menu(const Layer& layer, const Settings& settings) {
  const int least = least_bits_of(layer);
  std::vector<Choice> menu;
  for (const int bits : {1, 2, 3, 4, 6, 8}) {
    if (bits >= least) menu.push_back(grouped(layer, bits));
  }
  if (is_feature_map(layer.kind)) {
    for (const int bits : {2, 4}) menu.push_back(divided(settings.division, bits));
  }
  // On a device, sizes that depend on the data are known too late to be weighed.
  if (!layer.on_device) menu.push_back({Choice::Action::lossless, {}, 0, {}});
  menu.push_back({});
  if (layer.derivable) menu.push_back(derived(layer));
  const bool offloads = settings.budget.offload && layer.on_device;
  if (!offloads || layer.raw_bytes < settings.offload.min_bytes) return menu;
  for (const int bits : {4, 8}) {
    if (bits < least) continue;
    menu.push_back(offloaded(grouped(layer, bits)));
  }
  menu.push_back(offloaded({}));
  return menu;
}

Choice budget_start(const Layer& layer, const Settings& settings) {
  if (layer.derivable) return derived(layer);
  // Errors of a source reach all that is computed from it.
  if (is_feature_map(layer.kind) && !layer.is_source) return divided(settings.division, 2);
  return cautious(layer);
}

double seconds_of(const Choice& choice, double raw_bytes, double held_bytes) noexcept {
  const double moved = choice.offload ? held_bytes * seconds_per_offloaded_byte : 0;
  return raw_bytes * seconds_per_byte(choice) + moved;
}

std::string budget_words(const Settings& settings) {
  const BudgetSettings& b = settings.budget;
  const std::string target =
      b.peak_bytes != 0
          ? "at most " + number_in_words(static_cast<double>(b.peak_bytes) / (1 << 20)) + " MiB"
          : "1/" + number_in_words(b.ratio) + " of the bytes that they would take";
  return "A budget: activations are held in " + target +
         " with the least variance of the weights' gradients. Layers are tried in turn, first all "
         "in "
         "the steps after the first and then every " +
         std::to_string(b.every_steps) +
         " steps a few of them: their backward is run on what a few bits would give, and the "
         "difference counts. "
         "Among 1 to 8 bits, DIVISION, lossless" +
         std::string(b.offload ? ", raw and, of CUDA tensors, the host's memory" : " and raw") +
         " a knapsack is solved at step boundaries, "
         "and a new plan is taken when it is clearly better. If the budget can't be met, or is a "
         "ratio that only the fewest bits would meet, one line says so, and up to a fifth more "
         "than the fewest possible bytes are used. What can be computed from other activations is, "
         "where that costs less than storing it. A second of encoding and decoding counts like " +
         number_in_words(b.variance_per_second) + " of relative variance.";
}

}  // namespace cinch::policy
