// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include <c10/core/Storage.h>

#include "hooks/torch/stash/entry/entry.h"
#include "hooks/torch/stash/lists/held_bytes.h"

namespace cinch::hooks {

/// Raw entries that are not settling yet. `owned`: somebody else owns the storage too. `window`:
/// only the stash owns it; in the order in which they entered. Not thread-safe: the stash's lock
/// guards it.
class WaitingEntries {
 public:
  /// @param bytes Counts the bytes of both lists
  explicit WaitingEntries(HeldBytes& bytes) : bytes_(bytes) {}

  /// The owned entry of `storage`; null when there is none, or its memory has changed since.
  Entry* find(const c10::Storage& storage) const;

  /// Adds a new entry to `owned`. @throws std::bad_alloc; nothing was then added
  void add(Entry& entry);

  /// The owned entries, in no order.
  std::span<Entry* const> owned() const noexcept { return owned_; }

  /// Bytes of owned entries whose storage nobody else owns any more. Looks at all of them.
  std::uint64_t sole_bytes() const;

  /// The next owned entry in turn; skip_owned() goes on to another. @pre owned() is not empty
  Entry& next_owned() noexcept;
  void skip_owned() noexcept { ++cursor_; }

  void remove_owned(Entry& entry) noexcept;

  /// Reserves a place for the next enter_window(), or gives it up. @throws std::bad_alloc
  void make_place() { window_.push_back(nullptr); }
  void give_up_place() noexcept { window_.pop_back(); }

  /// @pre make_place()
  void enter_window(Entry& entry) noexcept;

  /// The window's entries, the oldest first; null where one has left.
  const std::deque<Entry*>& window() const noexcept { return window_; }

  /// The oldest entry in the window. @pre the window is not empty
  Entry& oldest() const noexcept { return *window_.front(); }

  void leave_window(Entry& entry) noexcept;

 private:
  HeldBytes& bytes_;
  std::unordered_map<const c10::StorageImpl*, Entry*> by_storage_;  // of owned_
  std::vector<Entry*> owned_;
  std::size_t cursor_ = 0;
  std::deque<Entry*> window_;
  std::uint32_t window_start_ = 0;  // place_index of window_'s first
};

}  // namespace cinch::hooks
