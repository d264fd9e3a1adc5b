// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/planning/magnified.h"

namespace cinch::hooks {

void Magnified::add(std::span<const std::uint32_t> nodes) {
  if (nodes_.size() + nodes.size() > most) nodes_.clear();
  nodes_.insert(nodes.begin(), nodes.end());
  any_nodes_.store(!nodes_.empty(), std::memory_order_relaxed);
}

bool Magnified::learn(const Use& use) {
  if (!nodes_.contains(use.sequence)) return false;
  if (operands_.size() >= most) operands_.clear();
  return operands_.insert(key_of(use)).second;
}

void Magnified::mark(const Entry& entry) {
  if (nodes_.empty()) return;
  for (Use* use = entry.first_use; use != nullptr; use = use->next) {
    const bool is_known = nodes_.contains(use->sequence) || operands_.contains(key_of(*use));
    use->is_magnified |= !use->is_recipes && is_known;
  }
}

const Words& Magnified::key_of(const Use& use) {
  const auto words = use.geometry.words();
  key_.assign(words.begin(), words.end());
  key_.push_back(static_cast<std::int64_t>(use.geometry.rank()));
  key_.push_back(reinterpret_cast<std::intptr_t>(use.site));
  key_.push_back(static_cast<std::int64_t>(use.type));
  return key_;
}

}  // namespace cinch::hooks
