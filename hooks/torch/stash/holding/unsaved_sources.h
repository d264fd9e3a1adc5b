// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "hooks/torch/stash/entry/entry.h"

namespace cinch::hooks {

/// Sources that nobody saved, by the value that they are copies of: for all recipes that read it.
/// There are few. Not thread-safe: the stash's lock guards it.
class UnsavedSources {
 public:
  /// A value: an output of one of autograd's nodes, after so many in-place changes.
  struct Key {
    const void* node = nullptr;
    std::uint64_t sequence = 0;  ///< the node's: another one may lie at its address later
    std::uint32_t output = 0;
    std::uint32_t version = 0;

    friend bool operator==(const Key&, const Key&) = default;
  };

  /// Null: there is none.
  Entry* find(const Key& key) const {
    const auto known = std::ranges::find(all_, key, &Source::first);
    return known == all_.end() ? nullptr : known->second;
  }

  /// @throws std::bad_alloc; nothing has then changed
  void add(const Key& key, Entry& entry) { all_.emplace_back(key, &entry); }

  /// The entry is deleted.
  void forget(const Entry& entry) noexcept {
    std::erase_if(all_, [&](const Source& each) { return each.second == &entry; });
  }

 private:
  using Source = std::pair<Key, Entry*>;

  std::vector<Source> all_;
};

}  // namespace cinch::hooks
