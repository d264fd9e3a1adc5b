// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>

#include "hooks/torch/stash/entry/entry.h"

namespace cinch::hooks {

/// A set of autograd nodes (by sequence number) that read certain entries. Uses by recipes are left
/// out: they have the number of the node that saved the entry, and come and go without it. Not
/// thread-safe.
class NodesThatRead {
 public:
  /// Adds the nodes of all uses of `entry`. @throws std::bad_alloc; none was then added
  void add(const Entry& entry) {
    const Use* use = entry.first_use;
    try {
      for (; use != nullptr; use = use->next) {
        if (!use->is_recipes) ++uses_[use->sequence];
      }
    } catch (...) {
      for (const Use* added = entry.first_use; added != use; added = added->next) remove(*added);
      throw;
    }
  }

  /// Removes a use, if it was added. @return whether the set became empty
  bool remove(const Use& use) noexcept {
    if (use.is_recipes) return false;
    const auto known = uses_.find(use.sequence);
    if (known == uses_.end() || --known->second != 0) return false;
    uses_.erase(known);
    return uses_.empty();
  }

  /// Whether a node with this number may be in the set (numbers repeat among forward threads).
  bool contains(std::uint32_t sequence) const { return uses_.contains(sequence); }

  void clear() noexcept { uses_.clear(); }

 private:
  std::unordered_map<std::uint32_t, std::uint32_t> uses_;  // how many, by node
};

}  // namespace cinch::hooks
