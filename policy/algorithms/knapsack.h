// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cinch::policy {

/// One way to hold one entry.
struct KnapsackOption {
  double size = 0;  ///< what is limited, >= 0
  double cost = 0;  ///< what is minimized, >= 0
};

/// An option for each entry.
struct Selection {
  std::vector<std::uint32_t> chosen;  ///< index of the option, by entry
  double size = 0;
  double cost = 0;
  bool fits = false;  ///< size <= capacity; when nothing fits, `chosen` has the least size
};

/// The multiple-choice knapsack: one option for each entry, the sizes' sum at most `capacity`, of
/// least cost.
///
/// Greedy along the lower convex hulls of the options, whose relaxation also bounds the optimum
/// from below. Where that is more than 0.2 % away and entries are few (48): a dynamic program over
/// selections that none beats in both size and cost, exact while no more than 4096 are. The better
/// of both, with leftover capacity spent. Deterministic. Time n log n; at most 48 x 4096 x options
/// for the second part.
/// @pre every entry has an option
Selection choose_options(std::span<const std::vector<KnapsackOption>> entries, double capacity);

}  // namespace cinch::policy
