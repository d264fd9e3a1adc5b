// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/derivation_plan.h"

#include <algorithm>
#include <utility>

namespace cinch::policy {
namespace {

using OptionsOfAll = std::vector<std::vector<KnapsackOption>>;

// Recipes have sources that have recipes, to the depth that the policy allows: far fewer.
constexpr int most_steps = 16;

// The layers whose stored values `layer` is computed from, each as often as it is met.
void add_roots(std::span<const PlannedLayer> layers, const std::vector<bool>& computed,
               std::size_t layer, int steps, std::vector<std::size_t>& roots) {
  for (const std::size_t source : layers[layer].sources) {
    if (!computed[source]) {
      roots.push_back(source);
    } else if (steps < most_steps) {
      add_roots(layers, computed, source, steps + 1, roots);
    }
  }
}

std::vector<std::size_t> roots_of(std::span<const PlannedLayer> layers,
                                  const std::vector<bool>& computed, std::size_t layer) {
  std::vector<std::size_t> roots;
  add_roots(layers, computed, layer, 0, roots);
  return roots;
}

// The options that are left when `computed` says which layers are computed. The errors of these
// count with the options of the layers that they are computed from.
OptionsOfAll options_with(std::span<const PlannedLayer> layers, const std::vector<bool>& computed,
                          const DerivedCost& derived_cost) {
  OptionsOfAll options;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    auto& left = options.emplace_back(layers[i].options);
    for (std::size_t j = 0; j < left.size(); ++j) {
      const bool derives = static_cast<std::int64_t>(j) == layers[i].derived;
      if (derives != computed[i]) left[j] = not_an_option;
    }
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!computed[i]) continue;
    for (const std::size_t root : roots_of(layers, computed, i)) {
      for (std::size_t j = 0; j < options[root].size(); ++j) {
        KnapsackOption& option = options[root][j];
        if (option.size < not_an_option.size) option.cost += derived_cost(i, root, j);
        if (option.cost >= not_an_option.cost) option = not_an_option;
      }
    }
  }
  return options;
}

// What the last byte is worth in a solution: the most that any better option would save by the
// byte.
double price_of_byte(const OptionsOfAll& options, const Selection& best) {
  double price = 0;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const KnapsackOption& now = options[i][best.chosen[i]];
    for (const KnapsackOption& other : options[i]) {
      if (other.size <= now.size || other.size >= not_an_option.size) continue;
      price = std::max(price, (now.cost - other.cost) / (other.size - now.size));
    }
  }
  return price;
}

// `before` without the layers that are better stored at that price.
std::vector<bool> without_better_stored(std::span<const PlannedLayer> layers,
                                        const std::vector<bool>& before, const Selection& best,
                                        double price, const DerivedCost& derived_cost) {
  std::vector<bool> computed = before;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!before[i]) continue;
    const auto derived = static_cast<std::size_t>(layers[i].derived);
    const auto priced = [&](std::size_t j) {
      return layers[i].options[j].cost + price * layers[i].options[j].size;
    };
    double as_computed = priced(derived);
    for (const std::size_t root : roots_of(layers, before, i)) {
      as_computed += derived_cost(i, root, best.chosen[root]);
    }
    for (std::size_t j = 0; j < layers[i].options.size(); ++j) {
      if (j != derived && priced(j) < as_computed) computed[i] = false;
    }
  }
  return computed;
}

// Whether some option holds the layer in fewer bytes than computing it does: in the host's memory,
// for one, where masks do not go.
bool is_less_stored(const PlannedLayer& layer) {
  const double computed = layer.options[static_cast<std::size_t>(layer.derived)].size;
  return std::ranges::any_of(
      layer.options, [computed](const KnapsackOption& option) { return option.size < computed; });
}

}  // namespace

Selection plan_with_derivation(std::span<const PlannedLayer> layers, double capacity,
                               const DerivedCost& derived_cost) {
  std::vector<bool> computed;
  for (const PlannedLayer& layer : layers) computed.push_back(layer.derived >= 0);
  OptionsOfAll options = options_with(layers, computed, derived_cost);
  Selection best = choose_options(options, capacity);
  if (!best.fits) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (computed[i] && is_less_stored(layers[i])) computed[i] = false;
    }
    options = options_with(layers, computed, derived_cost);
    best = choose_options(options, capacity);
    if (!best.fits) return best;
  }
  const auto fewer =
      without_better_stored(layers, computed, best, price_of_byte(options, best), derived_cost);
  if (fewer == computed) return best;
  Selection other = choose_options(options_with(layers, fewer, derived_cost), capacity);
  return other.fits && other.cost < best.cost ? other : best;
}

double cost_of(std::span<const PlannedLayer> layers, std::span<const std::uint32_t> chosen,
               const DerivedCost& derived_cost) {
  std::vector<bool> computed;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    computed.push_back(static_cast<std::int64_t>(chosen[i]) == layers[i].derived);
  }
  const OptionsOfAll options = options_with(layers, computed, derived_cost);
  double cost = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) cost += options[i][chosen[i]].cost;
  return cost;
}

}  // namespace cinch::policy
