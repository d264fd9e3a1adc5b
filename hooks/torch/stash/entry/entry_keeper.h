// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <c10/core/Storage.h>

#include "codecs/codec.h"
#include "hooks/torch/stash/entry/entry.h"

namespace cinch::hooks {

/// What the stash's parts may call of the whole stash. The caller holds none of its locks.
class EntryKeeper {
 public:
  /// Whether to put an entry off if its encoded size is not known beforehand and there is no room
  /// for it (`room`), or to encode it all the same (`now`).
  enum class When : std::uint8_t { room, now };

  /// Carries out the plan of an entry that is settling, and gives up one hold on it. Without memory
  /// to encode it, the entry is kept.
  virtual void settle(Entry& entry, codecs::ParallelFor parallel_for, When when) noexcept = 0;

  /// Decodes what `reads` needs before backward asks, if still wanted, and gives up one hold.
  virtual void decode_ahead(Entry& entry, codecs::Reads reads) noexcept = 0;

  /// Gives up one hold on `entry` (Entry::holders), and removes `use` unless it is null. The last
  /// holder deletes the entry.
  virtual void drop_holder(Entry& entry, Use* use = nullptr) noexcept = 0;

  /// The entry's exact values: raw, decoded losslessly or computed from such; else null.
  virtual c10::Storage exact_values(Entry& entry) = 0;

  /// Frees a storage on a thread that may wait for the interpreter.
  virtual void free_later(c10::Storage storage) noexcept = 0;

 protected:
  ~EntryKeeper() = default;
};

}  // namespace cinch::hooks
