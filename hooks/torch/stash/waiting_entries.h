// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include <c10/core/Storage.h>

#include "hooks/torch/stash/entry.h"
#include "hooks/torch/stash/held_bytes.h"

namespace cinch::hooks {

/// Entries that are raw and may stay so: owned, those whose storage somebody else owns too, and the
/// window, those that are solely the stash's, in the order in which they came to be that. Not
/// thread-safe: the stash's lock guards it.
class WaitingEntries {
 public:
  /// @param bytes What counts the two lists' bytes
  explicit WaitingEntries(HeldBytes& bytes) : bytes_(bytes) {}

  /// The owned entry of a storage that is what it was when it was saved; else null.
  Entry* find(const c10::Storage& storage) const;

  /// Takes a new entry in among the owned. @throws std::bad_alloc: then it did not
  void add(Entry& entry);

  /// All that are owned, in no order.
  std::span<Entry* const> owned() const noexcept { return owned_; }

  /// Bytes of those owned that nobody else owns any more. Looks at all.
  std::uint64_t sole_bytes() const;

  /// The next of the owned in turn, which skip() passes by. @pre owned() is not empty
  Entry& next_owned() noexcept;
  void skip_owned() noexcept { ++cursor_; }

  /// An owned entry leaves.
  void remove_owned(Entry& entry) noexcept;

  /// Makes the place of the next enter_window(), or gives it up. @throws std::bad_alloc
  void make_place() { window_.push_back(nullptr); }
  void give_up_place() noexcept { window_.pop_back(); }

  /// @pre make_place()
  void enter_window(Entry& entry) noexcept;

  /// Entries of the window, the oldest first; null where one has left.
  const std::deque<Entry*>& window() const noexcept { return window_; }

  /// The oldest of the window. @pre the window holds bytes
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
