// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "policy/algorithms/knapsack.h"

namespace cinch::policy {

/// Larger and worse than any option; takes an option's place so that indices stay the menu's.
inline constexpr KnapsackOption not_an_option = {1e18, 1e18};

/// A layer for which plan_with_derivation() chooses.
struct PlannedLayer {
  std::vector<KnapsackOption> options;  ///< by index into the menu
  /// The option that computes the layer from others; -1 where that can't be done.
  std::int64_t derived = -1;
  /// What it is computed from then: indices of layers, which may be computed themselves.
  std::vector<std::size_t> sources;
};

/// The cost of computing layer `derived` from values of `source` that are held by its option
/// `option`: the error of these becomes an error of what is computed. not_an_option.cost where that
/// can't be.
using DerivedCost =
    std::function<double(std::size_t derived, std::size_t source, std::size_t option)>;

/// Chooses an option for each layer so that the sizes sum to at most `capacity` and the cost is
/// least: of the options, and of the errors that computed layers get from their sources. At first
/// all layers are computed that can be; if that can't fit, but for those of fewer bytes when
/// stored. Then those are stored for which, at the price of a byte in that solution, this costs
/// less, if that makes all cheaper. Deterministic.
/// @pre every layer has an option besides `derived`
Selection plan_with_derivation(std::span<const PlannedLayer> layers, double capacity,
                               const DerivedCost& derived_cost);

/// The cost of `chosen`, an option for each layer, with that of what is computed.
double cost_of(std::span<const PlannedLayer> layers, std::span<const std::uint32_t> chosen,
               const DerivedCost& derived_cost);

}  // namespace cinch::policy
