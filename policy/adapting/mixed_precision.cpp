// SPDX-License-Identifier: Apache-2.0
#include "policy/adapting/mixed_precision.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace cinch::policy {
namespace {

double inverse_square(int bits) noexcept {
  return 1 / levels_squared(bits);
}

/// m_b: the cost of the step from b to b - 1 bits at w = 1.
double step_cost(int bits) noexcept {
  return inverse_square(bits - 1) - inverse_square(bits);
}

struct Step {
  double cost;
  int bits;  // before the step; of equal costs the item with more bits loses one first
  std::size_t item;

  /// Later in the queue than `other`.
  bool operator<(const Step& other) const noexcept {
    return std::tuple(cost, -bits, item) > std::tuple(other.cost, -other.bits, other.item);
  }
};

/// Gives `left` bits back to the items that gain most, as far as they fit.
void give_back(std::span<const PrecisionItem> items, double left, std::vector<std::uint8_t>& bits) {
  const auto gain = [&](std::size_t i) { return items[i].weight * step_cost(bits[i] + 1); };
  std::priority_queue<Step> queue;  // the greatest gain has the least -gain
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (bits[i] < most_mixed_bits && items[i].size <= left) queue.push({-gain(i), 0, i});
  }
  while (!queue.empty()) {
    const std::size_t i = queue.top().item;
    queue.pop();
    if (items[i].size > left) continue;
    left -= items[i].size;
    ++bits[i];
    if (bits[i] < most_mixed_bits) queue.push({-gain(i), 0, i});
  }
}

}  // namespace

std::vector<std::uint8_t> allocate_bits(std::span<const PrecisionItem> items, double budget) {
  std::vector<std::uint8_t> bits(items.size(), most_mixed_bits);
  double used = 0;
  std::vector<Step> steps;
  steps.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    used += most_mixed_bits * items[i].size;
    steps.push_back(
        {items[i].weight * step_cost(most_mixed_bits) / items[i].size, most_mixed_bits, i});
  }
  std::priority_queue<Step> queue({}, std::move(steps));
  while (used > budget && !queue.empty()) {
    const std::size_t i = queue.top().item;
    queue.pop();
    used -= items[i].size;
    const int now = --bits[i];
    if (now > 1) queue.push({items[i].weight * step_cost(now) / items[i].size, now, i});
  }
  if (used < budget) give_back(items, budget - used, bits);
  return bits;
}

}  // namespace cinch::policy
