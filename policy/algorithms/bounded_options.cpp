// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/bounded_options.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "policy/algorithms/layer_noise.h"
#include "policy/mixed_precision.h"

namespace cinch::policy {
namespace {

// Bounds coarser than 3 bits would round most values to 0 together.
constexpr int as_bits[] = {3, 4};

// Bounds stay until the values ask for ones that are larger or smaller by this factor.
const double stale = std::sqrt(2.0);

// The expected size falls by this share of the difference to a smaller one.
constexpr double downwards = 0.002;
constexpr double clearly = 1.05;

// Bounds that float32 values and their lattices can have.
constexpr double smallest = 1e-30;
constexpr double largest = 1e30;

std::string prefix(int bits) {
  return "bounded_" + std::to_string(bits) + '_';
}

}  // namespace

std::vector<Choice> bounded_menu(LayerKind kind) {
  std::vector<Choice> menu;
  for (const int bits : as_bits) {
    if (bits < least_measured_bits(kind)) continue;
    Choice& choice = menu.emplace_back();
    choice.action = Choice::Action::encode;
    choice.spec.name = "error_bounded_ratio";
    choice.spec.bits = bits;
    choice.spec.error_bound = 1;
  }
  return menu;
}

BoundedOptions::BoundedOptions(const Layer& layer) : raw_bytes_(layer.raw_bytes) {
  for (std::uint32_t i = 0; i < layer.menu.size(); ++i) {
    if (is_bounded(layer.menu[i]))
      options_.push_back({.index = i, .bits = layer.menu[i].spec.bits});
  }
}

void BoundedOptions::follow(const Look& look, Layer& layer) {
  if (options_.empty() || look.trials.empty()) return;
  if (has_bounds_) ++trials_;
  for (Option& option : options_) {
    if (option.index >= look.trials.size() || option.bound == 0) continue;
    const Look::Trial& trial = look.trials[option.index];
    if (!counts(trial) || trial.bytes == 0) continue;
    option.noise.follow(trial);
    note_size(option.index, trial.bytes);
  }
  const std::size_t trials = std::min(look.trials.size(), layer.menu.size());
  for (std::size_t i = 0; i < trials; ++i) {
    const Choice& choice = layer.menu[i];
    if (!is_grouped(choice) || is_single(choice)) continue;
    if (!(look.trials[i].values > 0) || !std::isfinite(look.trials[i].values)) continue;
    set_bounds(look.trials[i].values * levels_squared(choice.spec.bits), layer);
    return;
  }
}

// Errors within a bound are uniform, so their mean square is a third of the bound's square. The
// mean square of groups' errors falls with the square of the levels.
void BoundedOptions::set_bounds(double values_at_one_level, Layer& layer) {
  const auto bound_of = [values_at_one_level](int bits) {
    return std::sqrt(3 * values_at_one_level / levels_squared(bits));
  };
  const double first = bound_of(options_.front().bits);
  const double now = options_.front().bound;
  if (has_bounds_ && first < stale * now && now < stale * first) return;
  for (const Option& option : options_) {
    const double bound = bound_of(option.bits);
    if (!(bound >= smallest && bound <= largest)) return;
  }
  has_bounds_ = true;
  for (Option& option : options_) {
    option.bound = static_cast<float>(bound_of(option.bits));
    layer.menu[option.index].spec.error_bound = option.bound;
  }
}

bool BoundedOptions::note_size(std::uint32_t index, std::size_t bytes) {
  const auto option = std::ranges::find(options_, index, &Option::index);
  if (option == options_.end()) return false;
  const auto found = static_cast<double>(std::min(bytes, raw_bytes_));
  const bool more = found > clearly * option->bytes;
  option->bytes += (found > option->bytes ? 1 : downwards) * (found - option->bytes);
  return more;
}

const BoundedOptions::Option* BoundedOptions::find(std::uint32_t index) const {
  const auto option = std::ranges::find(options_, index, &Option::index);
  return option == options_.end() || option->bound == 0 ? nullptr : &*option;
}

bool BoundedOptions::is_worth_trial(std::uint32_t index, const GuardSettings& guard) const {
  const Option* option = find(index);
  if (option == nullptr) return false;
  if (!option->noise.was_tried()) return true;
  // Choices take turns: entropy coders are slow, and what layers tolerate changes slowly.
  const bool in_turn = &options_[trials_ % options_.size()] == option;
  return in_turn && option->noise.is_option(guard);
}

bool BoundedOptions::is_option(std::uint32_t index, const GuardSettings& guard) const {
  const Option* option = find(index);
  return option != nullptr && option->noise.is_option(guard) && option->bytes > 0 &&
         option->bytes < static_cast<double>(raw_bytes_);
}

double BoundedOptions::bytes(std::uint32_t index) const {
  const Option* option = find(index);
  return option == nullptr ? 0 : option->bytes;
}

double BoundedOptions::noise(std::uint32_t index, const Noise& hit) const {
  return find(index)->noise.of(hit);
}

void BoundedOptions::add_numbers(Numbers& numbers) const {
  if (!has_bounds_) return;
  for (const Option& option : options_) {
    const std::string name = prefix(option.bits);
    numbers[name + "bound"] = double{option.bound};
    if (option.bytes > 0) numbers[name + "bytes"] = option.bytes;
    option.noise.add_numbers(name, numbers);
  }
}

void BoundedOptions::recall(const Numbers& numbers, Layer& layer) {
  for (const Option& option : options_) {
    double bound = 0;
    take_number(numbers, prefix(option.bits) + "bound", bound);
    if (!(bound >= smallest && bound <= largest)) return;
  }
  for (Option& option : options_) {
    const std::string name = prefix(option.bits);
    double bound = 0;
    take_number(numbers, name + "bound", bound);
    option.bound = static_cast<float>(bound);
    layer.menu[option.index].spec.error_bound = option.bound;
    take_number(numbers, name + "bytes", option.bytes);
    option.bytes = std::min(option.bytes, static_cast<double>(raw_bytes_));
    option.noise.recall(name, numbers);
    has_bounds_ = true;
    if (option.noise.was_tried()) trials_ = 1;
  }
}

}  // namespace cinch::policy
