// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <c10/core/Storage.h>

#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/entry/entry_work.h"

namespace cinch::hooks {

/// Entries that were taken from the program (Entry::shared), with the storages that it owned then.
/// There are few. Not thread-safe: the stash's lock guards it.
class SharedEntries {
 public:
  /// @pre entry.raw is set @throws std::bad_alloc; nothing has then changed
  void add(const Entry& entry) { all_.push_back({&entry, weak(entry.raw)}); }

  void remove(const Entry& entry) noexcept {
    std::erase_if(all_, [&](const Shared& each) { return each.entry == &entry; });
  }

  /// Raw bytes of entries whose storage the program owns still.
  struct Bytes {
    std::uint64_t all = 0;
    std::uint64_t raw = 0;  ///< of those that are held raw
  };

  Bytes bytes_of_program() const {
    Bytes bytes;
    for (const auto& [entry, storage] : all_) {
      const bool is_raw = entry->place != Entry::Place::settled;
      if (storage.use_count() <= (is_raw ? 1 : 0)) continue;
      bytes.all += entry->raw_bytes;
      if (is_raw) bytes.raw += entry->raw_bytes;
    }
    return bytes;
  }

  /// Whether the entry was taken as `storage`, which still is as it was then.
  bool was_taken_as(const Entry& entry, const c10::Storage& storage) const {
    return std::ranges::any_of(all_, [&](const Shared& each) {
      // The weak pointer keeps its target's address from being used again.
      return each.entry == &entry &&
             each.storage._unsafe_get_target() == storage.unsafeGetStorageImpl() &&
             entry.identity.is(storage, entry.raw_bytes);
    });
  }

 private:
  struct Shared {
    const Entry* entry;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  };

  std::vector<Shared> all_;
};

}  // namespace cinch::hooks
