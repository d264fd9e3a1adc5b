// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/entry/read_storages.h"

namespace cinch::hooks {

void ReadStorages::add(const c10::Storage& storage, Entry& entry, std::uint32_t version) {
  const c10::StorageImpl* const key = storage.unsafeGetStorageImpl();
  const auto known = by_storage_.find(key);
  if (known != by_storage_.end() && known->second.entry == &entry) {
    known->second.version = version;
    return;
  }
  forget(entry);
  if (known != by_storage_.end()) forget(*known->second.entry);
  by_entry_.emplace(&entry, key);
  by_storage_.insert_or_assign(key, Read{&entry, version});
}

Entry* ReadStorages::find(const c10::StorageImpl* storage, std::uint32_t version) const noexcept {
  const auto found = by_storage_.find(storage);
  const bool is_same = found != by_storage_.end() && found->second.version == version;
  return is_same ? found->second.entry : nullptr;
}

void ReadStorages::forget(const Entry& entry) noexcept {
  const auto found = by_entry_.find(&entry);
  if (found == by_entry_.end()) return;
  by_storage_.erase(found->second);
  by_entry_.erase(found);
}

}  // namespace cinch::hooks
