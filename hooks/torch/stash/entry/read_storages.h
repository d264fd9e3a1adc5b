// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>

#include <c10/core/Storage.h>

#include "hooks/torch/stash/entry/entry.h"

namespace cinch::hooks {

/// Which entry each storage belongs to that a backward reads while it builds a graph. What a node
/// saves of it then is one more use of that entry. Not thread-safe: the stash's lock guards it.
class ReadStorages {
 public:
  /// Adds or replaces an entry's storage. @param version The version counter of the tensor that was
  /// read @throws std::bad_alloc
  void add(const c10::Storage& storage, Entry& entry, std::uint32_t version);

  /// The entry whose values `storage` had when it was read; null if there is none, or if a tensor
  /// of this version has changed since. The storage may be another one at the same address.
  Entry* find(const c10::StorageImpl* storage, std::uint32_t version) const noexcept;
  bool has(const c10::StorageImpl* storage) const noexcept { return by_storage_.contains(storage); }

  /// Call before the entry is deleted.
  void forget(const Entry& entry) noexcept;

 private:
  struct Read {
    Entry* entry;
    std::uint32_t version;
  };
  std::unordered_map<const c10::StorageImpl*, Read> by_storage_;
  std::unordered_map<const Entry*, const c10::StorageImpl*> by_entry_;
};

}  // namespace cinch::hooks
