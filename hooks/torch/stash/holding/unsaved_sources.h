// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <unordered_map>

#include "hooks/torch/stash/entry/entry.h"

namespace cinch::hooks {

/// Sources that nobody saved, by the value that they are copies of: for all recipes that read it.
/// Not thread-safe: the stash's lock guards it.
class UnsavedSources {
 public:
  /// A value: an output of one of autograd's nodes, after so many in-place changes.
  struct Key {
    const void* node = nullptr;
    std::uint64_t sequence = 0;  ///< the node's: another one may lie at its address later
    std::uint32_t output = 0;
    std::uint32_t version = 0;

    friend auto operator<=>(const Key&, const Key&) = default;
  };

  /// Null: there is none.
  Entry* find(const Key& key) const {
    const auto known = entries_.find(key);
    return known == entries_.end() ? nullptr : known->second;
  }

  /// @throws std::bad_alloc; nothing has then changed
  void add(const Key& key, Entry& entry) {
    const auto [made, is_new] = keys_.emplace(&entry, key);
    if (!is_new) return;
    try {
      entries_.emplace(key, &entry);
    } catch (...) {
      keys_.erase(made);
      throw;
    }
  }

  /// The entry is deleted.
  void forget(const Entry& entry) noexcept {
    const auto known = keys_.find(&entry);
    if (known == keys_.end()) return;
    const auto of_key = entries_.find(known->second);
    if (of_key != entries_.end() && of_key->second == &entry) entries_.erase(of_key);
    keys_.erase(known);
  }

 private:
  std::map<Key, Entry*> entries_;
  std::unordered_map<const Entry*, Key> keys_;
};

}  // namespace cinch::hooks
