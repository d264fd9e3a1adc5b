// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/lists/waiting_entries.h"

#include "hooks/torch/process/no_throw.h"

namespace cinch::hooks {

Entry* WaitingEntries::find(const c10::Storage& storage) const {
  const auto known = by_storage_.find(storage.unsafeGetStorageImpl());
  if (known == by_storage_.end()) return nullptr;
  Entry& entry = *known->second;
  return entry.identity.is(storage, entry.raw_bytes) ? &entry : nullptr;
}

void WaitingEntries::add(Entry& entry) {
  make_room_for_one(owned_);
  by_storage_[entry.raw.unsafeGetStorageImpl()] = &entry;
  entry.place_index = static_cast<std::uint32_t>(owned_.size());
  owned_.push_back(&entry);
  bytes_.owned += entry.raw_bytes;
}

std::uint64_t WaitingEntries::sole_bytes() const {
  std::uint64_t bytes = 0;
  for (const Entry* entry : owned_) {
    if (entry->raw.use_count() == 1) bytes += entry->raw_bytes;
  }
  return bytes;
}

Entry& WaitingEntries::next_owned() noexcept {
  if (cursor_ >= owned_.size()) cursor_ = 0;
  return *owned_[cursor_];
}

void WaitingEntries::remove_owned(Entry& entry) noexcept {
  owned_[entry.place_index] = owned_.back();
  owned_[entry.place_index]->place_index = entry.place_index;
  owned_.pop_back();
  bytes_.owned -= entry.raw_bytes;
  const auto known = by_storage_.find(entry.raw.unsafeGetStorageImpl());
  if (known != by_storage_.end() && known->second == &entry) by_storage_.erase(known);
}

void WaitingEntries::enter_window(Entry& entry) noexcept {
  entry.place_index = window_start_ + static_cast<std::uint32_t>(window_.size() - 1);
  window_.back() = &entry;
  bytes_.window += entry.raw_bytes;
}

void WaitingEntries::leave_window(Entry& entry) noexcept {
  window_[entry.place_index - window_start_] = nullptr;
  bytes_.window -= entry.raw_bytes;
  for (; !window_.empty() && window_.front() == nullptr; window_.pop_front()) ++window_start_;
}

}  // namespace cinch::hooks
