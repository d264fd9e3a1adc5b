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

/// The multiple-choice knapsack: picks one option for each entry so that the sizes sum to at most
/// `capacity` and the cost is least.
///
/// First greedy along the lower convex hulls of the options; their relaxation gives a lower bound
/// of the optimum. If that is more than 0.2 % away and there are at most 48 entries, then a dynamic
/// program over partial selections that no other beats in both size and cost, exact while they are
/// at most 4096. Returns the better result, with leftover capacity spent. Deterministic. Time
/// n log n for the first part, at most 48 x 4096 x options for the second.
/// @pre every entry has an option
Selection choose_options(std::span<const std::vector<KnapsackOption>> entries, double capacity);

}  // namespace cinch::policy
